"""Render every code that `validate` knows into docs/validation.md."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from flashinfer_bench.data.rules import CATEGORIES, OBSERVATIONS, RULES, Level
from flashinfer_bench.data.rules.finding import CATEGORY_BY_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).with_name("validation.md")
INTRODUCTION = """\
# What `validate` looks for

`flashinfer-bench validate --local DIR` checks a dataset: every file by itself, and whether all fit together. Each
finding has a code, a level, a place and what to do about it. Errors end with exit code 1, with `--strict` warnings
too. `--json` prints the findings as a document, `--checks` chooses among the categories below, `--fix` repairs what
is mechanical and loses nothing.

This page is written from the rules; `make docs` writes it anew.

## Weak tasks

A benchmark is as good as its tasks. `validate --run` runs each definition on its smallest workload and says what
makes a task unsound, or easy to win without solving it (codes `TSK`). It looks at

* the **reference**: does it run, leave its inputs alone, and give the same outputs twice, in two processes, and
  whatever state torch's generators are in?
* the **baselines**: does the judge accept them?
* **answers that take no work**: zeros, ones, the mean of the right output, a copy of an input of the same shape. One
  that passes shows that the tolerance is too wide for what the output holds. Zeros and the like that fail, but have
  nine in ten of their wrong elements let pass, show that the judge looks at few elements only.
* **variation**: outputs that are the same, or within the tolerance, for other inputs can be remembered instead of
  computed.
* **what `run` notes too**: TSK-05, TSK-07 and TSK-08 are `trivial_answer_passes`, `weakly_told_apart` and
  `constant_inputs` in [traces](evaluation.md#weak-tasks), for every workload that was run; rankings leave those out.
* **declared distributions**: is what was drawn what the [workload says](formats.md#what-random-inputs-hold)?

References and baselines run in worker processes, judged as `run` judges them; `--config FILE` gives the same settings
to both. The remedy is nearly always one of two: a tighter [tolerance](formats.md#workload) in the workloads, such as

```text
"tolerance": {"atol": 1e-30}
```

for probabilities of 128256 tokens, of which only the relative bound means anything,

or inputs at which the output depends on all of them, such as queries that spread wider: `{"type": "random",
"distribution": {"type": "normal", "std": 4.0}}`.
"""
ABOUT = {
    "layout": "Whether files lie where they should.",
    "definition": "Whether definitions are sound.",
    "workload": "Whether workloads fit their definitions.",
    "solution": "Whether solutions fit theirs. Nothing is built.",
    "trace": "Whether traces fit both.",
    "baseline": "Whether there is something to rank against.",
    "profile": "Whether model profiles are sound.",
    "benchmark": "Whether references and baselines run on every workload: `--checks benchmark`, or with a GPU.",
    "task": "Whether tasks are sound, and hard to fake: `--run`, or `--checks task`.",
}


class Code(NamedTuple):
    """One line of a table."""

    code: str
    level: Level
    claim: str
    remedy: str

    @property
    def category(self) -> str:
        """The category its first letters stand for."""
        return CATEGORY_BY_PREFIX[self.code.partition("-")[0]]


def codes() -> list[Code]:
    """List every code there is, in the order of a report."""
    found = [Code(each.code, each.level, each.claim, each.remedy) for each in RULES]
    found += [
        Code(each.code, each.level, each.claim, each.remedy) for each in OBSERVATIONS.values()
    ]
    return sorted(found, key=lambda each: (CATEGORIES.index(each.category), each.code))


def render() -> str:
    """Write the page."""
    return "\n".join([INTRODUCTION, *_sections()])


def _sections() -> Iterator[str]:
    for category, group in groupby(codes(), key=lambda each: each.category):
        yield f"## {category}\n\n{ABOUT[category]}\n"
        yield "| code | level | what holds for a good dataset | if not |\n|---|---|---|---|"
        yield from (
            f"| {c.code} | {_NOUN[c.level]} | {_cell(c.claim)} | {_cell(c.remedy)} |" for c in group
        )
        yield ""


_NOUN = {Level.ERROR: "error", Level.WARNING: "warning", Level.INFO: "note"}


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
