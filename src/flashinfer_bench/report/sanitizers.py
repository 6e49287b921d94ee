"""What sanitizers found, as a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashinfer_bench.data.wording import axes_text
from flashinfer_bench.text.numbers import count_text
from flashinfer_bench.text.tables import Block, Page, RowColumn, heading, paragraph, rows_table

if TYPE_CHECKING:
    from flashinfer_bench.bench.examining.sanitizer_values import (
        SanitizerFinding,
        SanitizerReport,
        SanitizerRun,
    )

_MOST_FINDINGS = 20
_WORDS = {
    "clean": "no fault",
    "faults": "faults",
    "failed": "failed",
    "unavailable": "did not look",
}


def sanitizer_page(report: SanitizerReport) -> Page:
    """Show the faults, then what each tool came to."""
    count = count_text(len(report.findings), "fault")
    head = {
        "clean": "no fault found",
        "faults": count,
        "failed": "not finished",
        "unavailable": "not looked at",
    }
    subject = f"{report.solution} [{axes_text(report.axes)}] on {report.hardware}"
    blocks: list[Block] = [heading(f"{subject}: {head[report.status]}")]
    shown = report.findings[:_MOST_FINDINGS]
    if shown:
        blocks.append(rows_table(_FINDINGS, shown))
    if len(report.findings) > len(shown):
        blocks.append(paragraph(f"and {len(report.findings) - len(shown)} more (--json has them)"))
    lines = [_run_text(run) for run in report.runs]
    lines += [f"note: {note}" for note in report.notes]
    lines += [f"{each.tool}'s own report: {each.path}" for each in report.reports]
    return (*blocks, paragraph("", *lines))


def _run_text(run: SanitizerRun) -> str:
    by = f" ({run.by})" if run.by else ""
    why = f": {run.why_not}" if run.why_not else ""
    remedy = f"; {run.remedy}" if run.remedy else ""
    return f"{run.tool}{by}: {_WORDS[run.status]}{why}{remedy}"


_FINDINGS: tuple[RowColumn[SanitizerFinding], ...] = (
    RowColumn("tool", lambda finding: finding.tool),
    RowColumn("where", lambda finding: finding.place or ""),
    RowColumn("in", lambda finding: finding.kernel or ""),
    RowColumn("count", lambda finding: str(finding.count), is_number=True),
    RowColumn("fault", lambda finding: finding.kind),
)
