"""What the leaderboard shows: authors by one score or another, on each kind of hardware."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashinfer_bench.report.numbers import percent_text, speedup_text
from flashinfer_bench.report.ranking import rankings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.report.page.content import Content
    from flashinfer_bench.report.ranking import Rank, Rankings


@dataclass(frozen=True, slots=True)
class Line:
    """An author in one table."""

    place: int
    author: str
    score: float
    score_text: str
    success: str
    wins: str
    definitions: int
    workloads: int
    violations: int
    best: dict[str, str]
    """The author's best solution of each definition."""


@dataclass(frozen=True, slots=True)
class Table:
    """Authors by one score."""

    title: str
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Score:
    """A score and what it says of the authors on one kind of hardware."""

    key: str
    name: str
    explanation: str
    tables: tuple[Table, ...]


@dataclass(frozen=True, slots=True)
class Board:
    """All scores on one kind of hardware."""

    hardware: str
    scores: tuple[Score, ...]


def boards(content: Content) -> list[Board]:
    """Rank authors by every score, for each kind of hardware by itself."""
    baselines = {
        definition: tuple(
            name for name in names if content.author_of(name) == content.baseline_author
        )
        for definition, names in content.solutions_by_definition.items()
    }
    return [
        Board(
            hardware,
            (_arithmetic(rankings(tallies, baselines, baseline_author=content.baseline_author)),),
        )
        for hardware, tallies in content.standing.tallies.items()
    ]


def _arithmetic(found: Rankings) -> Score:
    tables = (
        Table("Against the baseline", _lines(found.by_baseline)),
        Table("Against the reference, where there is no baseline", _lines(found.by_reference)),
    )
    return Score(
        "arithmetic",
        "average speedup",
        "The mean, over definitions, of the author's best solution's mean speedup; a solution with a failure scores 0.",
        tuple(table for table in tables if table.lines),
    )


def _lines(ranks: Sequence[Rank]) -> tuple[Line, ...]:
    return tuple(
        Line(
            place=place,
            author=rank.author,
            score=rank.avg_speedup,
            score_text=speedup_text(rank.avg_speedup),
            success=percent_text(rank.success_rate),
            wins=percent_text(rank.win_rate),
            definitions=rank.definitions,
            workloads=rank.workloads,
            violations=rank.violations,
            best=rank.best_solutions,
        )
        for place, rank in enumerate(ranks, start=1)
    )
