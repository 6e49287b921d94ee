"""Whether a kernel goes into compiled models and CUDA graphs, as a value and as a page."""

from __future__ import annotations

from dataclasses import dataclass

from flashinfer_bench.text.tables import Page, RowColumn, heading, paragraph, rows_table


@dataclass(frozen=True, slots=True)
class IntegrationStep:
    """One question about a kernel."""

    name: str
    """`answers`, `operator`, `full graph`, `dynamic sizes`, `capture` or `replay`."""
    verdict: str
    """`holds`, `refused` or `not tried`."""
    evidence: tuple[str, ...] = ()
    """Lines of the kernel, what they do, and why a step was not tried."""


@dataclass(frozen=True, slots=True)
class IntegrationReport:
    """All of them."""

    kernel: str
    definition: str
    device: str
    compiler: str
    accepted: bool
    steps: tuple[IntegrationStep, ...]


def integration_page(report: IntegrationReport) -> Page:
    """Show a line for each question, and the evidence below."""
    shown = [heading(f"{report.kernel} as {report.definition}, as an operator on {report.device}")]
    evidence = [f"{step.name}: {line}" for step in report.steps for line in step.evidence]
    verdict = "ACCEPTED" if report.accepted else "REFUSED"
    return (
        *shown,
        rows_table(_COLUMNS, report.steps),
        *([paragraph("", *evidence)] if evidence else []),
        heading(f"{verdict} for compiled code"),
    )


_COLUMNS: tuple[RowColumn[IntegrationStep], ...] = (
    RowColumn("question", lambda step: step.name),
    RowColumn("verdict", lambda step: step.verdict),
)
