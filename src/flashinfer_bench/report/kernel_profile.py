"""A solution under a profiler, as a page and as rows."""

from __future__ import annotations

import functools
import operator
from typing import TYPE_CHECKING

from flashinfer_bench.data.wording import axes_text
from flashinfer_bench.text.numbers import latency_text, size_text
from flashinfer_bench.text.tables import Block, Page, RowColumn, heading, paragraph, rows_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.bench.examining.profile_values import (
        CompilerRemark,
        ProfiledKernel,
        SolutionProfile,
        ToolAttempt,
    )
    from flashinfer_bench.compile.instructions import InstructionCounts

_US_PER_MS = 1e3
_MOST_REMARKS = 12
_MOST_KERNELS = 12
_TOOLS = {
    "ncu": "Nsight Compute",
    "cupti": "activity records of CUPTI",
    "torch": "torch's profiler",
    "ptxas": "the compiler (ptxas)",
    "remarks": "the C++ compiler's remarks",
}


def profile_page(profile: SolutionProfile) -> Page:
    """Show a profile: kernels, loops, which tool told, and what would tell more."""
    by = "nothing answered" if profile.tool is None else f"by {_TOOLS[profile.tool]}"
    where = f"on {profile.hardware}, {by}"
    blocks: list[Block] = [heading(f"{profile.solution} [{axes_text(profile.axes)}] {where}")]
    shown = profile.kernels[:_MOST_KERNELS]
    if shown:
        blocks.append(rows_table(KERNEL_COLUMNS, shown))
    counted = [(each.name, each.instructions) for each in shown if each.instructions]
    if counted:
        blocks += instruction_blocks("kernel", counted)
    if len(profile.kernels) > len(shown):
        blocks.append(paragraph(f"and {len(profile.kernels) - len(shown)} more (--json has them)"))
    if profile.call_us is not None:
        blocks.append(paragraph("", f"one call, under the profiler: {_time(profile.call_us)}"))
    blocks += _remark_blocks(profile.remarks)
    lines = [_attempt_text(each) for each in profile.attempts if not each.has_answered]
    lines += [f"note: {note}" for note in profile.notes]
    lines += [f"{each.tool}'s own report: {each.path}" for each in profile.reports]
    if lines:
        blocks.append(paragraph("", *lines))
    return tuple(blocks)


def _remark_blocks(remarks: tuple[CompilerRemark, ...]) -> list[Block]:
    if not remarks:
        return []
    done = [each for each in remarks if each.is_vectorised]
    missed = [each for each in remarks if not each.is_vectorised]
    head = f"Loops: {len(done)} vectorised, {len(missed)} not"
    lines = [f"{each.file}:{each.line}: {each.text}" for each in (*done, *missed)[:_MOST_REMARKS]]
    more = len(remarks) - len(lines)
    return [
        heading(head),
        paragraph(*lines, *([f"and {more} more (--json has them)"] if more else [])),
    ]


def _attempt_text(attempt: ToolAttempt) -> str:
    remedy = f"; {attempt.remedy}" if attempt.remedy else ""
    return f"not by {_TOOLS[attempt.tool]}: {attempt.why_not}{remedy}"


def _time(time_us: float | None) -> str:
    return "" if time_us is None else latency_text(time_us / _US_PER_MS)


def percent(value: float | None) -> str:
    """Write a share in percent; nothing where it is not known.

    >>> percent(81.26), percent(None)
    ('81%', '')
    """
    return "" if value is None else f"{value:.0f}%"


def occupancy(kernel: ProfiledKernel) -> str:
    """Say how many warps were there, of how many there can be, and what allows no more."""
    if kernel.occupancy_percent is None:
        return ""
    limit = kernel.occupancy_limit_percent
    of = "" if limit is None else f" of {limit:.0f}%"
    by = f", {kernel.occupancy_limiter}" if kernel.occupancy_limiter else ""
    return f"{kernel.occupancy_percent:.0f}%{of}{by}"


def stalls(kernel: ProfiledKernel) -> str:
    """Name why warps waited, the longest first."""
    return ", ".join(f"{each.reason} {each.share:.0%}" for each in kernel.top_stalls)


def instruction_blocks(
    head: str, rows: Sequence[tuple[str, InstructionCounts]]
) -> tuple[Block, Block]:
    """Show instructions by kind, a row for each kernel; kinds that none has are left out."""
    name: RowColumn[tuple[str, InstructionCounts]] = RowColumn(head, operator.itemgetter(0))
    columns = (
        name,
        RowColumn("code", lambda row: row[1].assembly.upper()),
        *(
            RowColumn(title, functools.partial(_counts_text, fields), is_number=True)
            for title, fields in INSTRUCTION_KINDS.items()
            if any(getattr(counts, field) for _, counts in rows for field in fields)
        ),
    )
    title = "Instructions in the code, loads/stores of each memory"
    return heading(title), rows_table(columns, rows)


def _counts_text(fields: tuple[str, ...], row: tuple[str, InstructionCounts]) -> str:
    return "/".join(str(getattr(row[1], field)) for field in fields)


INSTRUCTION_KINDS = {
    "all": ("total",),
    "global": ("global_loads", "global_stores"),
    "shared": ("shared_loads", "shared_stores"),
    "local": ("local_loads", "local_stores"),
    "async copies": ("async_copies",),
    "atomics": ("atomics",),
    "MMA": ("mma",),
    "FMA": ("fma",),
    "conversions": ("conversions",),
    "barriers": ("barriers",),
    "branches": ("branches",),
}


def _whole(value: int | None) -> str:
    return "" if value is None else str(value)


def _size(value: int | None) -> str:
    return "" if value is None else size_text(value)


KERNEL_COLUMNS: tuple[RowColumn[ProfiledKernel], ...] = (
    RowColumn("kernel", lambda kernel: kernel.name),
    RowColumn("launches", lambda kernel: _whole(kernel.launches), is_number=True),
    RowColumn("time", lambda kernel: _time(kernel.time_us), is_number=True),
    RowColumn("SM", lambda kernel: percent(kernel.sm_percent), is_number=True),
    RowColumn("DRAM", lambda kernel: percent(kernel.dram_percent), is_number=True),
    RowColumn("occupancy, limited by", occupancy),
    RowColumn("registers", lambda kernel: _whole(kernel.registers), is_number=True),
    RowColumn("spills", lambda kernel: _size(kernel.spill_bytes), is_number=True),
    RowColumn("stack", lambda kernel: _size(kernel.stack_bytes), is_number=True),
    RowColumn("shared memory", lambda kernel: _size(kernel.shared_memory_bytes), is_number=True),
    RowColumn("top stalls", stalls),
)
"""What a table of kernels shows; a column that says nothing is left out."""
