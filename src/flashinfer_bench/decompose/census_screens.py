"""What a census found, as a page."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from flashinfer_bench.text.numbers import count_text, percent_text
from flashinfer_bench.text.tables import (
    Block,
    Page,
    RowColumn,
    first_line,
    heading,
    paragraph,
    rows_table,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flashinfer_bench.decompose.census.rows import ArchitectureRow, CensusReport, KernelKind

_MOST_KINDS = 40
_ROWS: tuple[RowColumn[ArchitectureRow], ...] = (
    RowColumn("architecture", lambda row: row.architecture),
    RowColumn("model", lambda row: row.model),
    RowColumn("status", lambda row: row.status),
    RowColumn("kernels", lambda row: str(row.kernels or ""), is_number=True),
    RowColumn("different", lambda row: str(row.different_kernels or ""), is_number=True),
    RowColumn("kinds", lambda row: str(len(row.kinds) or ""), is_number=True),
    RowColumn("weak", lambda row: str(row.weak_workloads or ""), is_number=True),
    RowColumn("why not", lambda row: _why(row)),  # noqa: PLW0108  # defined below
)
_KINDS: tuple[RowColumn[KernelKind], ...] = (
    RowColumn("op type", lambda each: each.op_type),
    RowColumn("kind", lambda each: each.kind),
    RowColumn("architectures", lambda each: str(each.architectures), is_number=True),
    RowColumn("calls", lambda each: str(each.calls), is_number=True),
    RowColumn("answered by", lambda each: ", ".join(each.answered_by)),
)


def row_line(row: ArchitectureRow) -> str:
    """Say in one line what became of an architecture."""
    if row.status == "verified":
        return f"{row.architecture}: verified, {count_text(row.kernels, 'kernel')}, {row.equality}"
    return f"{row.architecture}: {row.status.upper()} in {_why(row)}"


def census_page(report: CensusReport) -> Page:
    """Show one line per architecture, the kinds of kernel, and the models that cover them."""
    return tuple(_blocks(report))


def _blocks(report: CensusReport) -> Iterator[Block]:
    yield heading(
        f"{report.library} {report.version}: {count_text(len(report.rows), 'architecture')}"
    )
    yield rows_table(_ROWS, report.rows)
    yield heading("In all")
    yield paragraph(*_totals(report))
    if report.kinds:
        yield heading("Kinds of kernel")
        yield paragraph(*_kinds(report))
        yield rows_table(_KINDS, report.kinds[:_MOST_KINDS])
        yield heading("Models that cover them")
        yield paragraph(*_covering(report))
    failed = [row for row in report.rows if row.status != "verified"]
    if failed:
        yield heading("By reason")
        yield paragraph(*_reasons(failed))


def _totals(report: CensusReport) -> Iterator[str]:
    tried, counts = len(report.rows), report.counts
    taken_apart = sum(row.is_decomposed for row in report.rows)
    yield (
        f"{tried} of {report.registered} architectures tried: folders with modelling code that the registry of "
        "configurations names"
    )
    yield f"{taken_apart} taken apart ({percent_text(taken_apart / tried)} of those tried)"
    yield f"{counts['verified']} verified ({percent_text(counts['verified'] / tried)})"
    yield f"{counts['decomposed']} with findings, {counts['late']} out of time, {counts['failed']} failed"
    if report.resumed:
        yield f"{count_text(report.resumed, 'architecture')} done before and left as they are (--resume)"


def _kinds(report: CensusReport) -> Iterator[str]:
    once = sum(each.architectures == 1 for each in report.kinds)
    yield (
        f"{count_text(len(report.kinds), 'kind')}: same operations, connected the same way, on the same dtypes; "
        "sizes and other numbers do not count"
    )
    yield f"{once} of them in one architecture only"
    if report.dataset is not None:
        answered = sum(bool(each.answered_by) for each in report.kinds)
        yield f"{answered} have the op type of a definition of {report.dataset}"
    if len(report.kinds) > _MOST_KINDS:
        yield f"the {_MOST_KINDS} in most architectures; all are in `--json`:"


def _covering(report: CensusReport) -> Iterator[str]:
    yield "chosen greedily, each time the model with the most kinds not met yet; a smaller set may exist"
    for each in report.covering:
        yield (
            f"{100 * each.share:g}% of the kinds: {count_text(len(each.architectures), 'model')}, "
            f"{each.kinds} kinds; they have all kinds of {count_text(each.whole_architectures, 'architecture')}"
        )
    last = report.covering[-1].architectures if report.covering else ()
    yield f"in this order: {', '.join(last)}"


def _why(row: ArchitectureRow) -> str:
    return "" if row.status == "verified" else first_line(f"{row.stage}: {row.reason}", limit=120)


def _reasons(rows: list[ArchitectureRow]) -> Iterator[str]:
    """Say how many architectures each stage stopped, and the first words of why."""
    met = Counter((row.status, row.stage, row.reason.split(":")[0]) for row in rows)
    for (status, stage, word), count in sorted(met.items(), key=lambda each: (-each[1], each[0])):
        yield f"{count}: {status} in {stage}: {word}"
