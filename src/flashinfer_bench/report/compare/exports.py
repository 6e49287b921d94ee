"""A comparison for other programs: Markdown for a pull request, JUnit XML for a CI server."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET  # written, never parsed
from typing import TYPE_CHECKING

from flashinfer_bench.report.compare.gates import slower_text, statuses_text
from flashinfer_bench.report.compare.pages import (
    CHANGE_COLUMNS,
    breach_text,
    headline,
    ordered,
    ratio_legend,
    ratio_text,
    workload_text,
)
from flashinfer_bench.report.compare.result import Change
from flashinfer_bench.stats.verdicts import Verdict
from flashinfer_bench.text.numbers import NOTHING, latency_text
from flashinfer_bench.text.tables import Row, RowColumn, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.report.compare.gates import GateResult
    from flashinfer_bench.report.compare.result import (
        ComparedJob,
        ComparisonReport,
        JobIdentity,
        Overall,
    )

_MOST_BREACHES = 20
"""A comment on GitHub ends at 65,536 characters."""
_UNFOLDED = (Verdict.SLOWER, Verdict.FASTER)
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def markdown(comparison: ComparisonReport, gates: Sequence[GateResult] = (), note: str = "") -> str:
    """Write a comment: verdicts first, what changed open, all the rest folded."""
    lines = [f"### {_cell(comparison.old)} → {_cell(comparison.new)}", ""]
    lines += [f"**{_cell(headline(each, comparison.threshold))}**  " for each in comparison.overall]
    if not comparison.overall:
        lines.append("**No verdict: no job has a time on both sides**")
    lines += _gate_lines(gates)
    lines += ["", _cell(note)] if note else []
    jobs = ordered(comparison.jobs)
    columns = _job_columns(comparison.threshold)
    lines += _table(columns, [job for job in jobs if job.verdict in _UNFOLDED])
    lines += _table(CHANGE_COLUMNS, comparison.changes)
    rest = [job for job in jobs if job.verdict not in _UNFOLDED]
    if rest:
        lines += ["", f"<details><summary>{len(rest)} same or undecided</summary>"]
        lines += [*_table(columns, rest), "", "</details>"]
    between = f"Differences up to {100 * comparison.threshold:.3g}% are treated as equal."
    remarks = [*ratio_legend(comparison.jobs), *comparison.remarks]
    return "\n".join([*lines, "", between, *(f"- {_cell(each)}" for each in remarks)])


def junit(comparison: ComparisonReport, gates: Sequence[GateResult] = ()) -> bytes:
    """Write one test case a job, one a gate and one for several jobs together.

    What breaks a gate fails, and so does whatever became worse, `SLOWER` or `BROKE`, whether a gate asks or not.
    """
    broken: dict[int, list[str]] = {}
    for gate in gates:
        for breach in gate.breaches:
            if breach.place is not None:
                broken.setdefault(id(breach.place), []).append(_joined(gate.gate, breach.what))
    suite = ET.Element("testsuite", name=_xml(f"{comparison.old} -> {comparison.new}"))
    for job in comparison.jobs:
        ratio = ratio_text(job, comparison.threshold).removeprefix(NOTHING)
        about = _joined(job.verdict, _joined(ratio, job.reason))
        _case(suite, job.place, about, broken.get(id(job.place), []) or _slower(job))
    for change in comparison.changes:
        about = f"{change.change}: {statuses_text(change)}"
        broke = [about] if change.change is Change.BROKE else []
        _case(suite, change.place, about, broken.get(id(change.place), []) or broke)
    for each in comparison.overall:
        if sum(each.verdicts.values()) > 1:
            about = headline(each, comparison.threshold)
            name = each.hardware or "all hardware"
            _add_case(suite, "all jobs together", name, about, _slower(each))
    for gate in gates:
        lines = [breach_text(each.place, each.what) for each in gate.breaches]
        _add_case(suite, "gates", gate.gate, "", [] if gate.holds else lines)
    suite.set("tests", str(len(suite)))
    suite.set("failures", str(sum(case.find("failure") is not None for case in suite)))
    suite.set("errors", "0")
    ET.indent(suite)
    return bytes(ET.tostring(suite, encoding="utf-8", xml_declaration=True)) + b"\n"


def _joined(what: str, more: str) -> str:
    """Put a colon between two texts that are there."""
    return ": ".join(text for text in (what, more) if text)


def _slower(found: ComparedJob | Overall) -> list[str]:
    if found.verdict is not Verdict.SLOWER:
        return []
    return [f"{found.verdict}: {slower_text(found.ratio)}"]


def _case(suite: ET.Element, place: JobIdentity, about: str, failures: Sequence[str]) -> None:
    names = (place.solution, workload_text(place), place.workload, place.hardware)
    name = " / ".join(dict.fromkeys(name for name in names if name))
    _add_case(suite, place.definition, name, about, failures)


def _add_case(
    suite: ET.Element, group: str, name: str, about: str, failures: Sequence[str]
) -> None:
    case = ET.SubElement(suite, "testcase", classname=_xml(group), name=_xml(name))
    if failures:
        failure = ET.SubElement(case, "failure", message=_xml(failures[0]))
        failure.text = _xml("\n".join(failures))
    if about:
        ET.SubElement(case, "system-out").text = _xml(about)


def _gate_lines(gates: Sequence[GateResult]) -> list[str]:
    lines = [""] if gates else []
    for gate in gates:
        lines.append(f"- `{gate.gate}` {'holds' if gate.holds else '**is broken**'}")
        shown = gate.breaches[:_MOST_BREACHES]
        lines += [f"  - {_cell(breach_text(each.place, each.what))}" for each in shown]
        if len(gate.breaches) > len(shown):
            lines.append(f"  - and {len(gate.breaches) - len(shown):,} more: see the tables")
    return lines


def _table(columns: Sequence[RowColumn[Row]], rows: Sequence[Row]) -> list[str]:
    """Lay rows out; a column without any content is left out, and so is a table without rows."""
    if not rows:
        return []
    by_column = [[_cell(each.text(row)) for row in rows] for each in columns]
    kept = [
        [each.head, "---", *cells]
        for each, cells in zip(columns, by_column, strict=True)
        if any(cells)
    ]
    return ["", *(f"| {' | '.join(line)} |" for line in zip(*kept, strict=True))]


def _job_columns(threshold: float) -> list[RowColumn[ComparedJob]]:
    return [
        RowColumn("verdict", lambda job: job.verdict),
        RowColumn("definition", lambda job: job.place.definition),
        RowColumn("solution", lambda job: job.place.solution),
        RowColumn("workload", lambda job: workload_text(job.place)),
        RowColumn("on", lambda job: job.place.hardware),
        RowColumn("old", lambda job: latency_text(job.old_latency_ms)),
        RowColumn("new", lambda job: latency_text(job.new_latency_ms)),
        RowColumn("new is [95%]", lambda job: ratio_text(job, threshold)),
    ]


def _cell(text: str) -> str:
    r"""Take the meaning out of what Markdown and HTML would read as theirs: names are other people's.

    Nobody is notified of a comment, and no other issue is linked, because a name holds @ or #.

    >>> _cell("a|b <img>"), _cell("mm@v2")
    ('a\\|b &lt;img&gt;', 'mm@<!-- -->v2')
    """
    plain = printable(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    for character in "\\`*_[]|~":
        plain = plain.replace(character, "\\" + character)
    return re.sub(r"([@#])(?=\w)", r"\1<!-- -->", plain)


def _xml(text: str) -> str:
    """Leave out what XML 1.0 cannot hold."""
    return _NO_XML.sub("", text)
