"""What `explain` shows of two sides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashinfer_bench.data.wording import axes_text
from flashinfer_bench.report.kernel_profile import instruction_blocks
from flashinfer_bench.text.numbers import NOTHING, count_text, latency_text, speedup_text
from flashinfer_bench.text.tables import Block, Page, RowColumn, heading, paragraph, rows_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flashinfer_bench.report.explaining import (
        BuiltKernel,
        CrossOver,
        ExplainedGroup,
        ExplainedJob,
        Explanation,
    )

_MOST_JOBS = 40
_MOST_DIFF_LINES = 60


def explanation_page(found: Explanation) -> Page:
    """Show where each side wins, where that turns, the sources' diff, both builds, and what is missing."""
    blocks: list[Block] = [heading(f"A: {found.a}, B: {found.b}")]
    for group in found.groups:
        blocks += _group_blocks(group)
    blocks += _source_blocks(found)
    blocks += _built_blocks(found)
    if found.remarks:
        blocks += [heading("Remarks (A is the old side, B the new one)"), paragraph(*found.remarks)]
    if found.missing:
        lines = [line for each in found.missing for line in (f"{each.what}:", f"  {each.command}")]
        blocks += [heading("Missing"), paragraph(*lines)]
    return tuple(blocks)


def _group_blocks(group: ExplainedGroup) -> Iterator[Block]:
    about = ", ".join(filter(None, (group.definition, group.solution, group.hardware)))
    yield heading(about)
    wins = group.wins
    summary = f"A wins {wins['a']}, B wins {wins['b']}, the same {wins['same']}, undecided {wins['undecided']}"
    yield paragraph(f"{summary}, of {count_text(len(group.jobs), 'workload')} that both passed")
    lines = [
        f"{each.winner.upper()} wins {count_text(each.workloads, 'workload')} with {each.axis} from {each.least} "
        f"to {each.most}"
        for each in group.ranges
    ]
    lines += [_cross_over(each) for each in group.cross_overs]
    if lines:
        yield paragraph(*lines)
    if group.jobs:
        yield paragraph("")
        yield rows_table(_COLUMNS, group.jobs[:_MOST_JOBS])
    if len(group.jobs) > _MOST_JOBS:
        yield paragraph(f"and {len(group.jobs) - _MOST_JOBS} more (--json has all)")
    lines = [
        f"{axes_text(each.axes)}: A {each.a_status or 'not run'}, B {each.b_status or 'not run'}"
        for each in group.one_sided
    ]
    if lines:
        yield paragraph("", "Not passed by both:", *lines[:_MOST_JOBS])


def _cross_over(turn: CrossOver) -> str:
    others = f" with {axes_text(turn.others)}" if turn.others else ""
    near = "" if turn.estimate is None else f", near {turn.estimate:.3g}"
    sides = f"{turn.wins_below.upper()} wins below, {turn.wins_above.upper()} above"
    return f"cross-over between {turn.axis}={turn.below} and {turn.above}{near}{others}: {sides}"


_TOLD = {"a": "A", "b": "B", "same": "same", "undecided": "undecided"}
_COLUMNS: tuple[RowColumn[ExplainedJob], ...] = (
    RowColumn("workload", lambda job: axes_text(job.axes)),
    RowColumn("A", lambda job: latency_text(job.a_latency_ms), is_number=True),
    RowColumn("B", lambda job: latency_text(job.b_latency_ms), is_number=True),
    RowColumn("A / B (95%)", lambda job: speedup_text(job.ratio, job.interval), is_number=True),
    RowColumn("wins", lambda job: _TOLD[job.winner]),
)


def _source_blocks(found: Explanation) -> Iterator[Block]:
    for change in found.sources:
        name = " → ".join(dict.fromkeys(filter(None, (change.a_path, change.b_path))))
        yield heading(f"Source: {name}, {change.removed} lines only in A, {change.added} only in B")
        lines = change.diff.splitlines()
        more = len(lines) - _MOST_DIFF_LINES
        tail = [f"… {more} more lines (--json has all)"] if more > 0 else []
        yield paragraph(*lines[:_MOST_DIFF_LINES], *tail)


def _built_blocks(found: Explanation) -> Iterator[Block]:
    sides = [("A", found.a_built), ("B", found.b_built)]
    rows = [(name, each) for name, side in sides if side for each in side.kernels]
    if rows:
        yield heading("Builds, as their newest profiles say")
        yield rows_table(_BUILT, rows)
    counted = [
        (f"{name} {each.name}", each.instructions) for name, each in rows if each.instructions
    ]
    if counted:
        yield from instruction_blocks("side, kernel", counted)


def _number(value: int | None) -> str:
    return NOTHING if value is None else str(value)


_BUILT: tuple[RowColumn[tuple[str, BuiltKernel]], ...] = (
    RowColumn("side", lambda row: row[0]),
    RowColumn("kernel", lambda row: row[1].name),
    RowColumn("registers", lambda row: _number(row[1].registers), is_number=True),
    RowColumn("spilled bytes", lambda row: _number(row[1].spill_bytes), is_number=True),
    RowColumn("stack bytes", lambda row: _number(row[1].stack_bytes), is_number=True),
    RowColumn("shared bytes", lambda row: _number(row[1].shared_memory_bytes), is_number=True),
)
