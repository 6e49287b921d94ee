"""Write docs/causes.md: every cause that can be suspected, and what is suspected of kernels with known faults.

It judges each of them, which takes minutes, so `make docs` leaves it out: `python docs/generate_causes.py`.
"""

from __future__ import annotations

import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
sys.path.insert(0, str(REPOSITORY))

from flashinfer_bench.judging.diagnosis import CAUSES  # noqa: E402
from tests.flow.faulty_kernels import (  # noqa: E402
    GROUPS,
    FaultyKernel,
    benchmark,
    diagnosed,
    first_cause,
    kernels,
)

PAGE = Path(__file__).with_name("causes.md")
OF_GROUP = {
    "earlier": "broken kernels that are older than the rules",
    "later": "written when the rules were finished, before one was judged; no rule was changed for them",
    "unseen": "there while the rules were made: not a fair test",
    "written": "there while the rules were made, which were made with them",
}
INTRODUCTION = """\
# Causes of wrong values

Where values are wrong, `check`, `run` and what is built on them name the causes that are suspected, the most likely
first, each with what was seen. `check --json` has all of it in `failure.diagnosis`, a trace in
`correctness.extra.diagnosis`: where the wrong elements lie, errors by power of ten, whether the same call gives the
same again, and up to four causes with their evidence as numbers. A solution that passes is not diagnosed.

Two things are done. Rules look at the output: its region, NaN, zeros, a common factor. Then the reference is run with
one fault put in at a time, and on inputs read otherwise; what gives the elements that came back is suspected. That has
one second a job; a slow reference, or a busy machine, has fewer faults tried: `tried` and `left_out` count them.

A cause is a suspicion. `score` puts causes in order and is no probability. Definitions whose outputs are drawn at
random have no diagnosis.

## The causes

| code | what it means | look at |
|---|---|---|
"""
HOW_OFTEN = """
## How often the first one is right

Kernels with a known fault in Python, C++, Triton and TileLang, judged on a CPU: `docs/generate_causes.py` writes this
table from one run of each. A race does not happen in every run; one that did not passed, and counts as wrong here.

"""


def main() -> None:
    """Judge every kernel and write the page."""
    lines = [f"| `{code}` | {cause.title} | {cause.look_at} |\n" for code, cause in CAUSES.items()]
    counts, tables = [], []
    with benchmark() as bench:
        for group in GROUPS:
            found = [(each, first_cause(diagnosed(bench, each))) for each in kernels(group)]
            right = sum(kernel.cause == first for kernel, first in found)
            kinds = len({kernel.cause for kernel, _ in found})
            counts.append(f"| {group} | {OF_GROUP[group]} | {right} of {len(found)} | {kinds} |\n")
            tables.append(_table(group, found))
    head = "| group | what it is | right | causes |\n|---|---|--:|--:|\n"
    text = INTRODUCTION + "".join(lines) + HOW_OFTEN + head + "".join(counts) + "".join(tables)
    PAGE.write_text(text, encoding="utf-8")


def _table(group: str, found: list[tuple[FaultyKernel, str]]) -> str:
    head = f"\n### {group}\n\n| kernel | its fault | suspected first |\n|---|---|---|\n"
    return head + "".join(
        f"| `{kernel.file.name}` | `{kernel.cause}` | {_told(kernel.cause, first)} |\n"
        for kernel, first in found
    )


def _told(cause: str, first: str) -> str:
    if first == cause:
        return "the same"
    return "**nothing**" if first == "-" else f"**`{first}`**"


if __name__ == "__main__":
    main()
