"""Write docs/attacks.md from the files of the attack suite and from what was seen on a card."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flashinfer_bench.attacks.suite import FAMILIES, FOLDER, NOT_STOPPED, SCENARIOS, Entry, entries

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

PAGE = Path(__file__).with_name("attacks.md")
VERIFIED = FOLDER / "verified.json"
FALSE_ALARMS = FOLDER / "false_alarms.json"
INTRODUCTION = """\
# Attacks, and what catches them

A benchmark that people compete on is attacked. Every attack we know is a small solution in
`src/flashinfer_bench/attacks/hostile/`; honest code that resembles one lies in `honest/` beside it. The files are part
of the installed package, so anyone can run them:

```console
$ flashinfer-bench attack-test
$ flashinfer-bench attack-test --family clock --device cuda:0
```

Each goes through the same engine as any other solution, on a temporary dataset of small definitions
(`attacks/victims/`), a look-alike on two sizes in one process. Each has to end as documented here; the command exits
with 1 if one does not. `tests/attacks/` runs them too, alone and mixed with honest solutions, whose results must not
change.

## How to read the status

| status | meaning |
|---|---|
| `failed_audit`, `implausible`, … | rejected with this violation: `INCORRECT_NUMERICAL`, the evidence is in the trace |
| `INCORRECT_NUMERICAL`, `RUNTIME_ERROR`, … | rejected with this status: wrong values, wrong shape, no answer |
| `prevented` | it runs and gets nothing of what it reached for: it is no faster than its *honest twin* beside it |
| `visible` | it passes, and the trace says what it did: lost precision is `correctness.extra.precision.ratio` |
| `note:…` | it passes, and the trace carries this note; `--strict` makes it a failure |
| `told` | it passes, and `performance.unaccounted_ms` of the trace is at least what it hid |
| `not_stopped` | nothing stops it for sure; the reason is in the list below |

Several codes mean that it depends on timing, or on the isolation level, which rule sees it first; any of them rejects
it. *Needs a sandbox* means that isolation level `off` does not stop it; see [the sandbox](sandbox.md). *Needs counters*
means that nothing does where the kernel gives none: `flashinfer-bench doctor` says whether it counts brief children.

The *honest twin* does the same work without the trick; mostly it is the victim's reference. The two run beside each
other, at most six times. The attack has gained something if all of the interval of its speedup lies above that of the
twin each time, or if its trace tells of another clock. A *scenario* says how a solution is submitted, if not once with
one workload.

This page is written by `docs/generate_attacks.py`.
"""


def render() -> str:
    """Write the page."""
    suite, verified = entries(), _kept(VERIFIED)
    hostile = [entry for entry in suite if entry.is_hostile]
    honest = [entry for entry in suite if not entry.is_hostile]
    parts = [INTRODUCTION, *_counts(hostile, honest)]
    for family, title in FAMILIES.items():
        members = [entry for entry in suite if entry.family == family]
        parts.append("\n".join([f"## {title}", "", *_table(members, family, verified)]) + "\n")
    parts += [_open_list(hostile), _alarms(), _card_list(suite, verified)]
    return "\n".join(parts)


def _counts(hostile: Sequence[Entry], honest: Sequence[Entry]) -> Iterator[str]:
    on_cpu = sum("cpu" in entry.devices for entry in hostile)
    yield (
        f"The suite holds {len(hostile)} attacks, {on_cpu} of which can be mounted on a CPU, and {len(honest)} "
        "look-alikes.\n"
    )


def _table(members: Sequence[Entry], family: str, verified: Mapping[str, Any]) -> Iterator[str]:
    if family == "honest":
        yield from ("| look-alike | what it does | devices | on a card |", "|---|---|---|---|")
    else:
        yield from (
            "| attack | how it works | what catches it | status | devices | on a card |",
            "|---|---|---|---|---|---|",
        )
    for entry in members:
        scenario = "" if entry.scenario == "alone" else f" Scenario: {SCENARIOS[entry.scenario]}."
        cells = [f"`{entry.name}`", f"{entry.title} {_sentence(entry.how)}{scenario}"]
        if entry.is_hostile:
            cells += [_sentence(entry.caught_by), _status(entry)]
        cells += [", ".join(entry.devices), _on_card(entry, verified)]
        yield f"| {' | '.join(cells)} |"


def _on_card(entry: Entry, verified: Mapping[str, Any]) -> str:
    """Say whether it has run on a card, and whether it ended there as this page says today."""
    if "cuda" not in entry.devices:
        return "–"
    row = verified.get("rows", {}).get(entry.name)
    if row is None:
        return "not yet"
    return "yes" if _is_as_documented(entry, row) else f"got through (`{row['got']}`)"


def _is_as_documented(entry: Entry, row: Mapping[str, Any]) -> bool:
    ended = set(row["got"].replace(":", "").replace(",", "").split())
    return bool(row["as_documented"]) or bool(ended & set(entry.expected_on("cuda")))


def _status(entry: Entry) -> str:
    text = ", ".join(f"`{word}`" for word in entry.expected)
    if entry.expected_on_cuda:
        text += "; on cuda " + ", ".join(f"`{word}`" for word in entry.expected_on_cuda)
    if entry.tries > 1:
        text += f" in each of {entry.tries} tries"
    text += "; needs a sandbox" if entry.needs_sandbox else ""
    return f"{text}; needs counters" if entry.needs_counters else text


def _open_list(hostile: Sequence[Entry]) -> str:
    lines = [
        f"* `{entry.name}`: {_sentence(entry.why_not)}"
        for entry in hostile
        if NOT_STOPPED in entry.expected
    ]
    return "\n".join(["## What is not stopped, and why", "", *(lines or ["Nothing known."])]) + "\n"


def _alarms() -> str:
    found = _kept(FALSE_ALARMS)
    text = "Not counted yet: `benchmarks/false_alarms.py` plays every look-alike two hundred times."
    if found:
        runs, bound = f"{found['runs']:,} quick runs", f"{found['upper_bound']:.3%}"
        text = (
            f"{runs} of {found['look_alikes']} look-alikes on {found['device']} on {found['date']}: {found['accused']} "
            f"accused, so with 95% confidence fewer than {bound} of such runs are (`benchmarks/false_alarms.py`)."
        )
        if "suspected" in found:
            text += f" {found['suspected']:,} were suspect at first and played again."
        text += f" {found['note']}" if "note" in found else ""
    return f"## False alarms\n\n{text}\n"


def _card_list(suite: Sequence[Entry], verified: Mapping[str, Any]) -> str:
    rows = verified.get("rows", {})
    on_cuda = [entry for entry in suite if "cuda" in entry.devices]
    missing = [entry.name for entry in on_cuda if entry.name not in rows]
    lines = ["## On a card", ""]
    if rows:
        ran = [entry for entry in on_cuda if entry.name in rows]
        others = [e for e in ran if not _is_as_documented(e, rows[e.name])]
        where = "{hardware}, the last on {date} (torch {torch}, sandbox `{sandbox}`)".format(
            **verified
        )
        lines.append(
            f"{len(ran)} of the {len(on_cuda)} that apply to CUDA ran on {where}; {len(ran) - len(others)} ended as "
            "documented."
        )
        lines += ["", *(f"* `{e.name}` ended with `{rows[e.name]['got']}`." for e in others)]
    else:
        lines.append("None of those for CUDA has run on a card yet.")
    if rows and missing:
        lines += ["", "These have not run on one:", "", ", ".join(f"`{name}`" for name in missing)]
    return "\n".join(lines) + "\n"


def _kept(file: Path) -> dict[str, Any]:
    if not file.exists():
        return {}
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def _sentence(text: str) -> str:
    if not text:
        return ""
    return (text[0].upper() + text[1:]).rstrip(".").replace("|", "\\|") + "."


def verify(report: Path) -> None:
    """Keep what `attack-test --device cuda:0 --json` printed on a card; a partial run adds to the rest."""
    found = json.loads(report.read_text(encoding="utf-8"))["attack_test"]
    if not found["device"].startswith("cuda"):
        sys.exit(
            f"{report} is of {found['device']}; the page keeps what was seen on a card: --device cuda:0"
        )
    before = _kept(VERIFIED)
    earlier = before.get("rows", {}) if before.get("hardware") == found["hardware"] else {}
    rows = {
        row["name"]: {"got": row["got"], "as_documented": row["as_documented"]}
        for row in found["rows"]
        if row["not_run_because"] is None
    }
    kept = {key: found[key] for key in ("date", "device", "hardware", "torch", "sandbox")}
    known = {entry.name for entry in entries()}
    rows = {name: row for name, row in sorted({**earlier, **rows}.items()) if name in known}
    text = json.dumps({**kept, "rows": rows}, indent=2, ensure_ascii=False)
    VERIFIED.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) > 1:  # python docs/generate_attacks.py REPORT.json
        verify(Path(sys.argv[1]))
    PAGE.write_text(render(), encoding="utf-8")
