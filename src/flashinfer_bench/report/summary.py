"""What a dataset's traces say as a whole: totals, then authors, for each kind of hardware."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashinfer_bench.report.scores.names import Family, ScoreName, parse_score
from flashinfer_bench.report.scores.ranking import Rankings, rankings
from flashinfer_bench.report.scores.scoring import ScoreTable, score_tables
from flashinfer_bench.report.standing import LeftOut, standing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from flashinfer_bench.data.rows import TraceRow
    from flashinfer_bench.report.standing import CurrentHash, Tallies


@dataclass(frozen=True, slots=True)
class Totals:
    """Counted traces."""

    traces: int
    passed: int
    failed: int
    by_status: dict[str, int]


@dataclass(frozen=True, slots=True)
class HardwareSummary:
    """What one kind of hardware has to show."""

    hardware: str
    totals: Totals
    rankings: Rankings
    scores: tuple[ScoreTable, ...] = ()
    """By the score that was asked for, where it is another than the arithmetic mean."""


@dataclass(frozen=True, slots=True)
class Summary:
    """What a dataset's traces say as a whole."""

    totals: Totals
    by_hardware: tuple[HardwareSummary, ...]
    left_out: LeftOut
    baseline_author: str
    score: str = Family.ARITHMETIC.value


def summarize(
    rows: Iterable[TraceRow],
    current_hash: CurrentHash,
    baselines: Mapping[str, tuple[str, ...]],
    *,
    baseline_author: str,
    mixes_hardware: bool = False,
    includes_weak: bool = False,
    score: ScoreName | None = None,
) -> Summary:
    """Sum rows up; `baselines` names the baseline author's solutions of each definition."""
    wanted = score or parse_score(Family.ARITHMETIC)
    sorted_out = standing(
        rows, current_hash, mixes_hardware=mixes_hardware, includes_weak=includes_weak
    )
    groups = tuple(
        HardwareSummary(
            hardware,
            _totals(sorted_out.statuses[hardware]),
            rankings(by_definition, baselines, baseline_author=baseline_author),
            _scores(by_definition, baselines, wanted, baseline_author),
        )
        for hardware, by_definition in sorted_out.tallies.items()
    )
    totals = _totals(_sums(group.totals.by_status for group in groups))
    return Summary(totals, groups, sorted_out.left_out, baseline_author, wanted.text)


def _scores(
    tallies: Tallies,
    baselines: Mapping[str, tuple[str, ...]],
    score: ScoreName,
    baseline_author: str,
) -> tuple[ScoreTable, ...]:
    if score.family is Family.ARITHMETIC:
        return ()
    return score_tables(tallies, baselines, score, baseline_author=baseline_author)


def _totals(by_status: Mapping[str, int]) -> Totals:
    total, passed = sum(by_status.values()), by_status.get("PASSED", 0)
    return Totals(total, passed, total - passed, dict(sorted(by_status.items())))


def _sums(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for each in counts:
        for status, count in each.items():
            sums[status] = sums.get(status, 0) + count
    return sums
