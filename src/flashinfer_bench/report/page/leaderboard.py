"""What the leaderboard shows: authors by one score or another, on each kind of hardware."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from flashinfer_bench.report.scores.names import Family, parse_score
from flashinfer_bench.report.scores.ranking import UNKNOWN_AUTHOR, rankings
from flashinfer_bench.report.scores.scoring import score_tables
from flashinfer_bench.text.numbers import NOTHING, percent_text, speedup_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flashinfer_bench.report.page.content import Content
    from flashinfer_bench.report.scores.scoring import ScoreTable
    from flashinfer_bench.report.standing import Tallies
    from flashinfer_bench.stats.intervals import Interval

OFFERED = (
    ("geometric", "Geometric mean of the speedups on the workloads that passed."),
    (
        "arithmetic",
        "Mean over definitions of the best solution's mean speedup; a solution with a failure scores 0.",
    ),
    (
        "coverage",
        "Geometric mean over every workload that anyone attempted: what failed or was not tried counts as 1x.",
    ),
    ("fast_p>=1", "Share of attempted workloads that are right and at least as fast (≥ 1x)."),
    (
        "win@1",
        "Share of attempted workloads on which the author's fastest solution is right and faster (> 1x).",
    ),
    ("sol", "Mean share of the device's speed of light; a failure is 0."),
    ("sol-gap", "How much of the way to the speed of light is gone: 50% as fast, 100% at it."),
    ("pass@1", "Share of the attempts that are right."),
    ("kernelbench", "KernelBench's fast_1 (> 1x), each definition weighing the same."),
)
"""Names of scores with what each means; the first is shown first."""
_AS_RATIO = frozenset({Family.ARITHMETIC, Family.GEOMETRIC, Family.COVERAGE})
_AGAINST = {
    "baseline": "Against the baseline",
    "reference": "Against the reference",
    "nothing": "All definitions",
}


@dataclass(frozen=True, slots=True)
class AuthorLine:
    """An author in one table."""

    place: str
    author: str
    score: float | None
    text: str
    """The score; why there is none where there is none."""
    success: float | None
    definitions: int | None
    workloads: int | None
    violations: int
    best: dict[str, str]
    """The author's best solution of each definition."""
    specialised: Mapping[str, str] = field(default_factory=dict)
    """Solutions that were wrong, or slow, on sizes that they had not seen, and where."""


@dataclass(frozen=True, slots=True)
class Table:
    """Authors by one score."""

    title: str
    lines: tuple[AuthorLine, ...]


@dataclass(frozen=True, slots=True)
class LeaderboardScore:
    """A score and what it says of the authors on one kind of hardware."""

    name: str
    title: str
    """The name, and of ratios that they are speedups."""
    explanation: str
    tables: tuple[Table, ...]


@dataclass(frozen=True, slots=True)
class Board:
    """All scores on one kind of hardware."""

    hardware: str
    scores: tuple[LeaderboardScore, ...]


def boards(content: Content) -> list[Board]:
    """Rank authors by every score, for each kind of hardware by itself."""
    baselines = {
        definition: tuple(
            name for name in names if content.author_of(name) == content.baseline_author
        )
        for definition, names in content.solutions_by_definition.items()
    }
    return [
        Board(hardware, _scores(tallies, baselines, content.baseline_author))
        for hardware, tallies in content.standing.tallies.items()
    ]


def _scores(
    tallies: Tallies, baselines: Mapping[str, tuple[str, ...]], baseline_author: str
) -> tuple[LeaderboardScore, ...]:
    ranks = rankings(tallies, baselines, baseline_author=baseline_author)
    best: dict[str, dict[str, str]] = {}
    specialised: dict[str, str] = {}
    for rank in (*ranks.by_baseline, *ranks.by_reference):
        best.setdefault(rank.author, {}).update(rank.best_solutions)
        specialised |= rank.specialised
    violations = _violations(tallies)
    return tuple(
        LeaderboardScore(
            name,
            f"speedup, {name}" if parse_score(name).family in _AS_RATIO else name,
            explanation,
            tuple(
                _table(table, parse_score(name).family, violations, best, specialised)
                for table in score_tables(
                    tallies, baselines, parse_score(name), baseline_author=baseline_author
                )
            ),
        )
        for name, explanation in OFFERED
    )


def _violations(tallies: Tallies) -> Counter[str]:
    counts: Counter[str] = Counter()
    for by_solution in tallies.values():
        for tally in by_solution.values():
            counts[tally.author or UNKNOWN_AUTHOR] += tally.violation_count
    return counts


def _table(
    table: ScoreTable,
    family: Family,
    violations: Mapping[str, int],
    best: Mapping[str, dict[str, str]],
    specialised: Mapping[str, str],
) -> Table:
    scored = tuple(
        AuthorLine(
            place=line.place,
            author=line.author,
            score=line.score,
            text=_text(family, line.score, line.interval),
            success=line.success_rate,
            definitions=line.definitions,
            workloads=line.workloads,
            violations=violations.get(line.author, 0),
            best=dict(sorted(best.get(line.author, {}).items())),
            specialised=specialised,
        )
        for line in table.lines
    )
    others = tuple(  # listed too: who broke rules must not vanish with the score
        AuthorLine(NOTHING, author, None, why, None, None, None, violations.get(author, 0), {})
        for author, why in table.unscored.items()
    )
    return Table(_AGAINST.get(table.against, table.against), scored + others)


def _text(family: Family, value: float, interval: Interval | None) -> str:
    """Write a score as what it is: a ratio, or a share with its interval where there is one."""
    if math.isnan(value):
        return NOTHING
    if family in _AS_RATIO:
        return speedup_text(value, interval)
    if interval is None:
        return percent_text(value)
    low, high = (f"{100 * end:.0f}" for end in interval)
    return f"{percent_text(value)} [{low}, {high}]"
