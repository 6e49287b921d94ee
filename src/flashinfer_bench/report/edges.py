"""What a kernel did on edge cases, as a value and as a page: the smallest failing case first."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from flashinfer_bench.report.logs import headline
from flashinfer_bench.text.numbers import count_text
from flashinfer_bench.text.tables import Page, RowColumn, heading, paragraph, rows_table

if TYPE_CHECKING:
    from flashinfer_bench.report.run import Fault, SkippedJob


@dataclass(frozen=True, slots=True)
class EdgeResult:
    """How one case ended."""

    case: str
    """Such as `rows = 17 (one past 16)`."""
    about: str
    """`size` or `stride`."""
    axes: dict[str, int]
    status: str
    log: str = ""

    @property
    def is_passed(self) -> bool:
        """Whether it passed."""
        return self.status == "PASSED"


@dataclass(frozen=True, slots=True)
class EdgeReport:
    """What a kernel did on all cases."""

    kernel: str
    definition: str
    accepted: bool
    results: tuple[EdgeResult, ...]
    """Sizes, then strides; of each the smallest first."""
    smallest_failing_size: EdgeResult | None = None
    smallest_failing_stride: EdgeResult | None = None
    left_out: dict[str, str] = field(default_factory=dict)
    """Cases that the definition does not allow, with the reason."""
    skipped: tuple[SkippedJob, ...] = ()
    dataset_faults: tuple[Fault, ...] = ()


def smallest_failing(results: tuple[EdgeResult, ...], about: str) -> EdgeResult | None:
    """Give the first case of a kind that did not pass; they come smallest first."""
    return next((each for each in results if each.about == about and not each.is_passed), None)


def edges_page(report: EdgeReport) -> Page:
    """Show what fails, smallest first, and what was tried."""
    failed = [each for each in report.results if not each.is_passed]
    blocks = [heading(f"{report.kernel} as {report.definition}, on edge cases")]
    if failed:
        blocks.append(rows_table(_COLUMNS, failed))
    for about, smallest in (
        ("size", report.smallest_failing_size),
        ("stride", report.smallest_failing_stride),
    ):
        if smallest is not None:
            blocks.append(heading(f"Smallest failing {about}: {smallest.case}"))
            blocks.append(paragraph(*smallest.log.rstrip().splitlines()[-_LOG_LINES:]))
    lines = [f"{case}: {why}" for case, why in report.left_out.items()]
    if lines:
        blocks += [heading("Not cases of this definition"), paragraph(*lines)]
    blocks += [paragraph("", f"skipped: {each.reason}") for each in report.skipped[:1]]
    faults = {each.explanation for each in report.dataset_faults}
    if faults:
        blocks += [
            heading("The reference fails there, too"),
            paragraph(*sorted(map(headline, faults))),
        ]
    kinds = Counter(each.about for each in report.results)
    tried = ", ".join(count_text(count, about) for about, count in kinds.items())
    passed = len(report.results) - len(failed)
    blocks.append(
        heading(f"{passed} of {count_text(len(report.results), 'case')} passed ({tried})")
    )
    return tuple(blocks)


_LOG_LINES = 12
_COLUMNS: tuple[RowColumn[EdgeResult], ...] = (
    RowColumn("fails with", lambda result: result.case),
    RowColumn("status", lambda result: result.status),
    RowColumn("because", lambda result: headline(result.log)),
)
