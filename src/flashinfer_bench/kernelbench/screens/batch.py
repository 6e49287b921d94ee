"""Many models taken apart: one line each, and what they come to."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from flashinfer_bench.kernelbench.batch import FAILED
from flashinfer_bench.text.numbers import count_text, duration_text, percent_text
from flashinfer_bench.text.tables import (
    Block,
    Column,
    Page,
    first_line,
    heading,
    paragraph,
    table,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.kernelbench.batch import BatchReport, BatchRow

_MEBIBYTE = 1 << 20
_COLUMNS = (
    Column("file"),
    Column("classified"),
    Column("kernels", is_number=True),
    Column("different", is_number=True),
    Column("fusions", is_number=True),
    Column("layers", is_number=True),
    Column("operations", is_number=True),
    Column("coverage", is_number=True),
    Column("verified"),
    Column("shrunk"),
    Column("CPU time", is_number=True),
)


def row_line(row: BatchRow) -> str:
    """Say in one line what became of a file."""
    if row.fault:
        return f"{row.problem}: FAILED: {first_line(row.fault)}"
    counts = [
        count_text(row.kernels, "kernel"),
        *([count_text(row.fusions, "fusion")] if row.fusions else []),
        *([count_text(row.layers, "layer")] if row.layers else []),
    ]
    return f"{row.problem}: {row.classified}, {', '.join(counts)}, {_verified(row)}, {duration_text(row.seconds)}"


def batch_page(report: BatchReport) -> Page:
    """Show one line per file, what they come to, and what went wrong."""
    rows = report.rows
    blocks: list[Block] = [
        heading(f"{count_text(len(rows), 'file')} taken apart into {report.output}")
    ]
    if rows:
        blocks.append(table(_COLUMNS, map(_cells, rows)))
    blocks += [heading("In all"), paragraph(*_summary(report))]
    failed = [row for row in rows if row.fault]
    if failed:
        blocks += [heading("Failed"), paragraph(*_faults(failed))]
    wrong = [row for row in rows if row.verified == "fail"]
    if wrong:
        blocks.append(heading("Not verified"))
        blocks.append(paragraph(*(line for row in wrong for line in _findings(row))))
    weak = [f"{row.problem}: {each}" for row in rows for each in row.weak]
    if weak:
        blocks += [heading("Marked: a wrong kernel passes"), paragraph(*weak)]
    return tuple(blocks)


def _cells(row: BatchRow) -> tuple[str, ...]:
    if row.fault:
        return (row.problem, FAILED, *[""] * 9)
    return (
        row.problem,
        row.classified,
        str(row.kernels),
        str(row.different_kernels),
        str(row.fusions),
        str(row.layers),
        str(row.operations),
        percent_text(row.coverage),
        _verified(row),
        "yes" if row.shrunk else "",
        "" if row.cpu_seconds is None else f"{row.cpu_seconds:.2f} s",
    )


def _verified(row: BatchRow) -> str:
    match row.verified:
        case "pass":
            return row.equality or "verified"
        case "fail":
            return "NOT VERIFIED"
        case _:
            return "not looked at"


def _summary(report: BatchReport) -> list[str]:
    totals = report.totals
    good = [row for row in report.rows if not row.fault]
    levels = Counter(row.classified for row in good)
    lines = [", ".join(f"{count} {level}" for level, count in levels.most_common())] if good else []
    lines.append(
        f"{totals['verified']:g} verified, {totals['bit_equal']:g} of them bit by bit; "
        f"{totals['not_verified']:g} not; {totals['failed']:g} failed"
    )
    lines.append(
        f"{totals['tests_executed']:g} files' tests executed; {totals['wrong_kernels_refused']:g} wrong kernels "
        f"refused, {totals['wrong_kernels_passed']:g} pass; {totals['shrunk']:g} compared on a smaller copy; "
        f"{totals['not_executed']:g} tests and workloads not executed"
    )
    lines.append(
        f"every operation accounted for in {totals['fully_covered']:g} of {count_text(len(good), 'file')}"
    )
    lines.append(
        f"{totals['mean_cpu_seconds']:.2f} s of CPU a file on average without verification, "
        f"at most {totals['most_memory_bytes'] / _MEBIBYTE:,.0f} MiB; {duration_text(report.seconds)} in all"
    )
    if report.resumed:
        lines.append(
            f"{count_text(report.resumed, 'file')} done before and left as they are (--resume)"
        )
    if report.merged is not None:
        merged = report.merged
        lines.append(
            f"{merged.dataset}: {count_text(merged.added, 'definition')} new, {merged.shared} met again, "
            f"{count_text(merged.workloads, 'new workload')}, of {count_text(merged.models, 'model')}"
        )
    return lines


def _faults(failed: Sequence[BatchRow]) -> list[str]:
    """Say each fault once, with all the files that it stopped."""
    problems: dict[str, list[str]] = {}
    for row in failed:
        said = first_line(row.fault.removeprefix(f"{row.file}: "), limit=400)
        problems.setdefault(said, []).append(row.problem)
    return [f"{', '.join(names)}: {said}" for said, names in problems.items()]


def _findings(row: BatchRow) -> list[str]:
    shown = [f"  {first_line(each, limit=300)}" for each in row.findings[:3]]
    rest = len(row.findings) - len(shown)
    more = (
        [f"  and {rest} more: `flashinfer-bench decompose verify {row.directory}`"]
        if rest > 0
        else []
    )
    return [f"{row.problem}:", *shown, *more]
