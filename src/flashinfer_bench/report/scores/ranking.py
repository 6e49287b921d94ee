"""How authors stand: average speedups over a baseline, or over the reference where there is none."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import TYPE_CHECKING

from flashinfer_bench.report.scores.measures import arithmetic_interval, places
from flashinfer_bench.stats.shifts import quotient

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flashinfer_bench.data.rows import TraceRow
    from flashinfer_bench.report.standing import Tallies, Tally
    from flashinfer_bench.stats.intervals import Interval

UNKNOWN_AUTHOR = "(unknown)"


@dataclass(frozen=True, slots=True)
class SolutionScore:
    """How a solution did on one definition: an average of ratios, all of it lost by one failure."""

    avg_speedup: float
    success_rate: float
    win_rate: float
    workloads: int
    interval: Interval | None = None
    """95%, of the average."""


@dataclass(frozen=True, slots=True)
class AuthorRank:
    """One line of a ranking."""

    author: str
    avg_speedup: float
    success_rate: float
    win_rate: float
    definitions: int
    workloads: int
    violations: int
    """Traces of the author, in any table, that broke the contract."""
    best_solutions: dict[str, str]
    """The author's best solution of each definition."""
    place: str = ""
    """The rank, or all that the intervals allow, as `1-3`."""
    interval: Interval | None = None
    """95%, of the average speedup."""
    specialised: dict[str, str] = field(default_factory=dict)
    """Which of the best solutions were wrong, or slow, on sizes that they had not seen, and where."""


@dataclass(frozen=True, slots=True)
class Rankings:
    """Authors on one kind of hardware; a definition takes part in one of the two tables."""

    by_baseline: tuple[AuthorRank, ...]
    by_reference: tuple[AuthorRank, ...]
    without_baseline: dict[str, str]
    """Definitions ranked against their reference instead, and why."""


def rankings(
    tallies: Tallies, baselines: Mapping[str, tuple[str, ...]], *, baseline_author: str
) -> Rankings:
    """Rank authors; `baselines` names the baseline author's solutions of each definition."""
    without = without_baseline(tallies, baselines, baseline_author)
    against_baseline: dict[tuple[str, str], dict[str, SolutionScore]] = {}
    against_reference: dict[tuple[str, str], dict[str, SolutionScore]] = {}
    for definition, by_solution in tallies.items():
        for tally in by_solution.values():
            key = (tally.author or UNKNOWN_AUTHOR, definition)
            if definition in without:
                scores, score = against_reference, score_by_reference(tally)
            else:
                baseline = by_solution[baselines[definition][0]]
                scores, score = against_baseline, score_by_baseline(tally, baseline)
            if score is not None:
                scores.setdefault(key, {})[tally.solution] = score
    violations = _violations_by_author(tallies)
    by_baseline, by_reference = (
        tuple(_with_specialised(rank, tallies) for rank in ranked(scores, violations))
        for scores in (against_baseline, against_reference)
    )
    return Rankings(by_baseline, by_reference, without)


def _with_specialised(rank: AuthorRank, tallies: Tallies) -> AuthorRank:
    found = {
        solution: where
        for definition, solution in rank.best_solutions.items()
        if (where := tallies[definition][solution].specialised)
    }
    return replace(rank, specialised=found)


def score_by_baseline(tally: Tally, baseline: Tally) -> SolutionScore | None:
    """Compare latencies on the workloads the baseline passed; the baseline itself has no score."""
    if tally is baseline:
        return None
    attempted = tally.passed.keys() | {row.workload_uuid for row in tally.failed}
    known = {uuid: row.latency_ms for uuid, row in baseline.passed.items() if row.latency_ms}
    common = sorted(attempted & known.keys())
    ratios = [_ratio(known[uuid], tally.passed.get(uuid)) for uuid in common]
    intervals = [_interval(baseline.passed[uuid], tally.passed.get(uuid)) for uuid in common]
    return _score(ratios, intervals, has_failed=bool(tally.failed))


def score_by_reference(tally: Tally) -> SolutionScore | None:
    """Average the recorded speedups over the reference."""
    compared = [row for row in tally.passed.values() if row.speedup]
    ratios = [row.speedup for row in compared] + [None] * len(tally.failed)
    intervals = [row.speedup_interval for row in compared]
    return _score(ratios, intervals, has_failed=bool(tally.failed))


def ranked(
    scores: Mapping[tuple[str, str], Mapping[str, SolutionScore]], violations: Mapping[str, int]
) -> tuple[AuthorRank, ...]:
    """Average each author's best solution of each definition; highest first, then by name.

    `scores` are keyed by author and definition, then by solution.
    """
    best: dict[str, dict[str, tuple[str, SolutionScore]]] = {}
    for (author, definition), by_solution in scores.items():
        winner = max(by_solution.items(), key=lambda pair: pair[1].avg_speedup)
        best.setdefault(author, {})[definition] = winner
    ranks = [_rank(author, winners, violations.get(author, 0)) for author, winners in best.items()]
    ranks.sort(key=lambda rank: (-rank.avg_speedup, rank.author))
    found = places([rank.avg_speedup for rank in ranks], [rank.interval for rank in ranks])
    return tuple(replace(rank, place=place) for rank, place in zip(ranks, found, strict=True))


def without_baseline(
    tallies: Tallies, baselines: Mapping[str, tuple[str, ...]], author: str
) -> dict[str, str]:
    """Name the definitions that cannot be compared with a baseline, and why."""
    reasons: dict[str, str] = {}
    for definition in sorted(tallies):
        names = baselines.get(definition, ())
        if not tallies[definition]:
            continue
        if not names:
            reasons[definition] = f"no solution by {author!r}"
        elif len(names) > 1:
            reasons[definition] = f"{len(names)} solutions by {author!r}"
        elif not _has_times(tallies[definition].get(names[0])):
            reasons[definition] = f"{names[0]} has no passing trace here"
    return reasons


def _has_times(tally: Tally | None) -> bool:
    return tally is not None and any(row.latency_ms for row in tally.passed.values())


def _ratio(baseline_ms: float, row: TraceRow | None) -> float | None:
    return baseline_ms / row.latency_ms if row is not None and row.latency_ms else None


def _interval(baseline: TraceRow, row: TraceRow | None) -> Interval | None:
    if row is None or not row.latency_ms or not baseline.latency_ms:
        return None
    return quotient(
        baseline.latency_ms, baseline.latency_interval_ms, row.latency_ms, row.latency_interval_ms
    )[1]


def _score(
    ratios: Sequence[float | None], intervals: Sequence[Interval | None], *, has_failed: bool
) -> SolutionScore | None:
    """Average; None where there is nothing to average."""
    if has_failed:
        return SolutionScore(0.0, 0.0, 0.0, len(ratios), (0.0, 0.0)) if ratios else None
    known = [ratio for ratio in ratios if ratio is not None]
    if not known:
        return None
    win_rate = sum(ratio > 1 for ratio in known) / len(known)
    pairs = zip(ratios, intervals, strict=True)
    interval = arithmetic_interval([(ratio, each) for ratio, each in pairs if ratio is not None])
    return SolutionScore(fmean(known), 1.0, win_rate, len(known), interval)


def _violations_by_author(tallies: Tallies) -> Counter[str]:
    counts: Counter[str] = Counter()
    for by_solution in tallies.values():
        for tally in by_solution.values():
            counts[tally.author or UNKNOWN_AUTHOR] += tally.violation_count
    return counts


def _rank(
    author: str, winners: Mapping[str, tuple[str, SolutionScore]], violations: int
) -> AuthorRank:
    scores = [score for _, score in winners.values()]
    return AuthorRank(
        author=author,
        avg_speedup=fmean(score.avg_speedup for score in scores),
        success_rate=fmean(score.success_rate for score in scores),
        win_rate=fmean(score.win_rate for score in scores),
        definitions=len(scores),
        workloads=sum(score.workloads for score in scores),
        violations=violations,
        best_solutions={name: solution for name, (solution, _) in sorted(winners.items())},
        interval=arithmetic_interval([(score.avg_speedup, score.interval) for score in scores]),
    )
