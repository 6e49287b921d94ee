"""What contest commands show."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashinfer_bench.text.numbers import count_text
from flashinfer_bench.text.tables import Column, heading, paragraph, table

if TYPE_CHECKING:
    from flashinfer_bench.serve.contest.archive import ArchiveReport
    from flashinfer_bench.serve.contest.messages import ContestBoard, EntryState, RankedTeam
    from flashinfer_bench.text.tables import Block, Page


def entry_page(state: EntryState) -> Page:
    """Show how far an entry is."""
    ended = state.outcome or state.status
    score = "" if state.score is None else f", {state.score:g}x the reference"
    return (
        paragraph(*state.log),
        heading(f"entry {state.entry} ({state.solution}): {ended.replace('_', ' ')}{score}"),
    )


def board_page(board: ContestBoard) -> Page:
    """Show how teams stand on each definition."""
    kind = "final" if board.is_final else "so far"
    blocks: list[Block] = []
    for each in board.definitions:
        blocks.append(heading(f"{board.contest}: {each.definition}, {kind}"))
        has_entries = any(standing.entry for standing in each.ranked)
        columns = [
            Column("rank", is_number=True),
            Column("team"),
            Column("solution"),
            Column("score", is_number=True),
            Column("of runs"),
            Column("review"),
        ]
        columns += [Column("entry")] if has_entries else []
        rows = [_cells(standing, has_entries=has_entries) for standing in each.ranked]
        blocks.append(table(columns, rows) if rows else paragraph("nobody is ranked"))
        blocks.append(paragraph(*(f"{one.team}: {one.reason}" for one in each.unranked)))
    return tuple(blocks)


def _cells(standing: RankedTeam, *, has_entries: bool) -> list[str]:
    cells = [
        str(standing.rank),
        standing.team,
        standing.solution,
        f"{standing.score:g}x",
        f"{standing.lowest:g} to {standing.highest:g}",
        standing.review.state,
    ]
    return [*cells, standing.entry or ""] if has_entries else cells


def archive_page(report: ArchiveReport) -> Page:
    """Show whether an archive can be relied on."""
    if report.faults:
        return (paragraph(*report.faults), heading("the archive is not what was signed"))
    assert report.board is not None
    files, traces = count_text(report.files, "file"), count_text(report.traces, "trace")
    return (
        *board_page(report.board),
        heading(f"{files} and {traces} are as they were signed with {report.key}"),
    )
