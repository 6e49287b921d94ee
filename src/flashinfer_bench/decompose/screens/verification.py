"""What a verification of a decomposition found, as a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashinfer_bench.text.numbers import count_text, duration_text, percent_text
from flashinfer_bench.text.tables import Block, Column, Page, heading, paragraph, table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flashinfer_bench.decompose.verify.findings import VerifyReport, Violation

_COLUMNS = (Column("rung"), Column("verdict"), Column("what was looked at"))


def verify_page(report: VerifyReport) -> Page:
    """Show the rungs, then what was found, then one line that sums up."""
    blocks: list[Block] = [heading(f"{report.model}: {report.folder}")]
    blocks.append(
        table(_COLUMNS, [(each.name, each.verdict, each.detail) for each in report.rungs])
    )
    for title, severity in (("Errors", "error"), ("Warnings", "warning")):
        found = [each for each in report.findings if each.severity == severity]
        if found:
            blocks += [
                heading(title),
                paragraph(*(line for each in found for line in _lines(each))),
            ]
    if report.notes:
        blocks += [heading("Notes"), paragraph(*report.notes)]
    return (*blocks, heading("Verdict"), paragraph(*_summary(report)))


def _lines(finding: Violation) -> Iterator[str]:
    place = finding.file if finding.line is None else f"{finding.file}:{finding.line}"
    yield f"{place}: {finding.code}: {finding.message}"
    yield f"    {finding.remedy}"


def _summary(report: VerifyReport) -> Iterator[str]:
    errors = sum(each.severity == "error" for each in report.findings)
    verdict = "PASS" if report.passed else f"FAIL: {count_text(errors, 'error')}"
    yield (
        f"{verdict} ({count_text(report.nodes, 'node')}, {count_text(report.leaf_calls, 'kernel call')}, "
        f"{count_text(report.seeds, 'seed')}, in {duration_text(report.elapsed_s)})"
    )
    if report.coverage is not None:
        held = report.coverage
        yield (
            f"{percent_text(held.share)} of {count_text(held.operations, 'operation')} accounted for: "
            f"{held.in_leaves} in kernels, {held.plumbing} plumbing, {held.dropped} side effects or dead"
        )
    if report.equality:
        yield f"outputs {report.equality}"
    if report.shrunk is not None:
        yield f"shrunk: {report.shrunk}"
