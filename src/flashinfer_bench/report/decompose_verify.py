"""What a verification of a decomposition found, as a value and as a page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from flashinfer_bench.report.numbers import count_text, duration_text, percent_text
from flashinfer_bench.report.tables import Block, Column, Page, heading, paragraph, table

if TYPE_CHECKING:
    from collections.abc import Iterator

_COLUMNS = (Column("rung"), Column("verdict"), Column("what was looked at"))

Severity = Literal["error", "warning"]
Verdict = Literal["pass", "fail", "not run"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that does not hold: where, which rule, and what to do."""

    file: str
    """Path from the decomposition's folder."""
    code: str
    message: str
    remedy: str
    severity: Severity = "error"
    node: str | None = None
    tensor: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Rung:
    """One step of the ladder: what it claims, and whether that holds."""

    name: str
    verdict: Verdict
    detail: str


@dataclass(frozen=True, slots=True)
class Coverage:
    """Where the operations of the original's run are."""

    operations: int
    in_leaves: int
    plumbing: int
    dropped: int
    """Side effects and operations that no output needs."""
    missing: tuple[str, ...]
    """In no leaf although they compute something."""
    repeated: tuple[str, ...]
    """In more than one leaf."""

    @property
    def share(self) -> float:
        """The part of all operations that is accounted for."""
        return 1 - len(self.missing) / self.operations if self.operations else 1.0


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """Whether a decomposition is its original, and how that was found out."""

    model: str
    folder: str
    passed: bool
    rungs: tuple[Rung, ...]
    findings: tuple[Finding, ...]
    seeds: int
    equality: str
    """`bit-equal`, or `within tolerance` with the largest relative error met; empty if nothing ran."""
    coverage: Coverage | None
    nodes: int
    leaf_calls: int
    shrunk: str | None
    """Which sizes were halved so that the model fits into memory."""
    notes: tuple[str, ...]
    elapsed_s: float

    @property
    def exit_code(self) -> int:
        """0 where everything holds, 1 where something does not."""
        return 0 if self.passed else 1


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


def _lines(finding: Finding) -> Iterator[str]:
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
