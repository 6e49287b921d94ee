"""The formula of each score over what an author attempted."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from flashinfer_bench.report.scores import measures
from flashinfer_bench.report.scores.names import Family, ScoreName
from flashinfer_bench.stats.intervals import Interval

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from flashinfer_bench.report.scores.times import GivenTime


@dataclass(frozen=True, slots=True)
class WorkloadAttempt:
    """One solution on one workload; no ratio where it failed."""

    definition: str
    solution: str
    workload: str
    ratio: float | None
    interval: Interval | None
    latency_ms: float | None = None
    latency_interval_ms: Interval | None = None
    sol_fraction: float | None = None
    given: GivenTime | None = None
    """Times that somebody else determined."""

    @property
    def key(self) -> tuple[str, str]:
        """Which workload."""
        return self.definition, self.workload


Value = tuple[float, Interval | None]


# Formulas: attempts, the score's parameters and the number of workloads in scope; a text says why there is no score.


def _geometric(attempts: Sequence[WorkloadAttempt], _: ScoreName, __: int) -> Value | str:
    passed = [each for each in attempts if each.ratio is not None]
    best = _best_by_definition(
        passed, lambda each: measures.geometric([a.ratio for a in each]) or 0.0
    )
    parts = [(value, _interval_of(each, measures.geometric_interval)) for each, value in best]
    value = measures.geometric([value for value, _ in parts])
    return "nothing passed" if value is None else (value, measures.geometric_interval(parts))


def _coverage(attempts: Sequence[WorkloadAttempt], _: ScoreName, scope: int) -> Value | str:
    best = [each for each in _fastest(attempts) if each.ratio is not None]
    value = measures.covered([each.ratio for each in best], scope)
    pairs = [(each.ratio or 0.0, each.interval) for each in best]
    pairs += [(1.0, (1.0, 1.0))] * (scope - len(best))
    return "nothing in scope" if value is None else (value, measures.geometric_interval(pairs))


def _sol(attempts: Sequence[WorkloadAttempt], _: ScoreName, __: int) -> Value | str:
    best = _with_roofline(attempts)
    if isinstance(best, str):
        return best
    ends = [_fraction_ends(each) for each in best]
    shares = [
        measures.mean_sol_fraction([each.sol_fraction if each.ratio else None]) for each in best
    ]
    return fmean(shares), measures.arithmetic_interval(list(zip(shares, ends, strict=True)))


def _sol_gap(attempts: Sequence[WorkloadAttempt], _: ScoreName, __: int) -> Value | str:
    best = _with_roofline(attempts)
    if isinstance(best, str):
        return best
    pairs = [
        (measures.closed_gap(1.0, each.ratio or 0.0, each.sol_fraction or 0.0), _gap_ends(each))
        for each in best
    ]
    return fmean(value for value, _ in pairs), measures.arithmetic_interval(pairs)


def _sol_execbench(attempts: Sequence[WorkloadAttempt], _: ScoreName, __: int) -> Value | str:
    """Average over workloads; who is faster than light is not scored: the bound is wrong, or the kernel cheats."""
    best: dict[tuple[str, str], Value] = {}
    for each in attempts:
        assert each.given is not None
        at_sol = each.given.sol_ms
        if each.latency_ms is not None and each.latency_ms < at_sol:
            return (
                f"{each.solution} took {each.latency_ms:.4g} ms on workload {each.workload} of {each.definition}, "
                f"below the speed of light, {at_sol:.4g} ms: the bound is wrong, or the kernel cheats"
            )
        best[each.key] = max(
            best.get(each.key, (0.0, (0.0, 0.0))), _sol_value(each), key=lambda value: value[0]
        )
    return fmean(value for value, _ in best.values()), measures.arithmetic_interval(
        list(best.values())
    )


def _sol_value(attempt: WorkloadAttempt) -> Value:
    if attempt.latency_ms is None or attempt.given is None:  # it failed
        return 0.0, (0.0, 0.0)
    times = attempt.given.baseline_ms, attempt.given.sol_ms
    ends = attempt.latency_interval_ms
    low_high = ends and (
        measures.sol_score(ends[1], *times),
        measures.sol_score(max(ends[0], times[1]), *times),
    )
    return measures.sol_score(attempt.latency_ms, *times), low_high


def _fast_p(attempts: Sequence[WorkloadAttempt], name: ScoreName, _: int) -> Value | str:
    return _share(grouped_attempts(attempts, name), name.thresholds[-1], name.beyond)


def _win(attempts: Sequence[WorkloadAttempt], name: ScoreName, _: int) -> Value | str:
    pairs = [(each.ratio, each.interval) for each in _fastest(attempts)]
    return _share({"": pairs}, name.thresholds[-1], name.beyond)


def _pass(attempts: Sequence[WorkloadAttempt], name: ScoreName, _: int) -> Value | str:
    are_right: defaultdict[str, dict[str, bool]] = defaultdict(dict)
    for each in attempts:
        known = are_right[each.definition].get(each.solution, True)
        are_right[each.definition][each.solution] = known and each.ratio is not None
    few = [name_ for name_, found in are_right.items() if len(found) < name.tries]
    if few:
        return f"fewer than {name.tries} solutions of {', '.join(sorted(few))}"
    flags = {problem: list(found.values()) for problem, found in are_right.items()}
    return measures.pass_at_k(flags, name.tries), None


FORMULAS: dict[Family, Callable[[Sequence[WorkloadAttempt], ScoreName, int], Value | str]] = {
    Family.GEOMETRIC: _geometric,
    Family.COVERAGE: _coverage,
    Family.SOL: _sol,
    Family.SOL_GAP: _sol_gap,
    Family.SOL_EXECBENCH: _sol_execbench,
    Family.FAST_P: _fast_p,
    Family.WIN: _win,
    Family.PASS: _pass,
}


def _best_by_definition(
    attempts: Iterable[WorkloadAttempt], value_of: Callable[[Sequence[WorkloadAttempt]], float]
) -> list[tuple[list[WorkloadAttempt], float]]:
    """Take an author's best solution of each definition."""
    grouped: defaultdict[str, defaultdict[str, list[WorkloadAttempt]]]
    grouped = defaultdict(lambda: defaultdict(list))
    for each in attempts:
        grouped[each.definition][each.solution].append(each)
    return [
        max(((each, value_of(each)) for each in by_solution.values()), key=lambda pair: pair[1])
        for by_solution in grouped.values()
    ]


def _fastest(attempts: Iterable[WorkloadAttempt]) -> list[WorkloadAttempt]:
    """Take an author's fastest solution of each workload; a failure where all failed."""
    best: dict[tuple[str, str], WorkloadAttempt] = {}
    for each in attempts:
        known = best.get(each.key)
        if known is None or (each.ratio or 0.0) > (known.ratio or 0.0):
            best[each.key] = each
    return list(best.values())


def grouped_attempts(
    attempts: Iterable[WorkloadAttempt], name: ScoreName
) -> dict[str, list[tuple[float | None, Interval | None]]]:
    """Group by problem, where a solution is one attempt; or leave every attempt for itself."""
    if not name.is_by_problem:
        return {"": [(each.ratio, each.interval) for each in attempts]}
    samples: defaultdict[tuple[str, str], list[WorkloadAttempt]] = defaultdict(list)
    for each in attempts:
        samples[each.definition, each.solution].append(each)
    grouped: defaultdict[str, list[tuple[float | None, Interval | None]]] = defaultdict(list)
    for (definition, _), found in samples.items():
        is_right = all(each.ratio is not None for each in found)
        ratio = measures.geometric([each.ratio for each in found]) if is_right else None
        interval = _interval_of(found, measures.geometric_interval) if is_right else None
        grouped[definition].append((ratio, interval))
    return dict(grouped)


def _share(
    grouped: Mapping[str, Sequence[tuple[float | None, Interval | None]]],
    threshold: float,
    beyond: measures.Beyond,
) -> Value:
    """Count; the interval reaches from what is certainly beyond to what may be."""
    values, lows, highs = (
        {problem: [_end(pair, end) for pair in pairs] for problem, pairs in grouped.items()}
        for end in (None, 0, 1)
    )
    value = measures.fast_p(values, threshold, beyond)
    known = all(pair[1] for pairs in grouped.values() for pair in pairs if pair[0] is not None)
    if not known:
        return value, None
    ends = measures.fast_p(lows, threshold, beyond), measures.fast_p(highs, threshold, beyond)
    return value, ends


def _end(pair: tuple[float | None, Interval | None], end: int | None) -> float | None:
    ratio, interval = pair
    return ratio if end is None or interval is None else interval[end]


def _interval_of(
    attempts: Iterable[WorkloadAttempt],
    combine: Callable[[Sequence[tuple[float, Interval | None]]], Interval | None],
) -> Interval | None:
    return combine([(each.ratio or 0.0, each.interval) for each in attempts])


def _with_roofline(attempts: Sequence[WorkloadAttempt]) -> list[WorkloadAttempt] | str:
    """Take the fastest of each workload that knows its roofline, and what failed; or say what is missing."""
    fastest = _fastest(attempts)
    if all(each.ratio is None for each in fastest):
        return "nothing passed"
    best = [each for each in fastest if each.ratio is None or each.sol_fraction is not None]
    if all(each.ratio is None for each in best):
        return "no speed of light was recorded"
    return best


def _fraction_ends(attempt: WorkloadAttempt) -> Interval | None:
    if attempt.ratio is None or not attempt.sol_fraction:
        return (0.0, 0.0)
    if attempt.latency_ms is None or attempt.latency_interval_ms is None:
        return None
    low_ms, high_ms = attempt.latency_interval_ms
    at_roofline = attempt.sol_fraction * attempt.latency_ms
    return min(1.0, at_roofline / high_ms), min(1.0, at_roofline / low_ms)


def _gap_ends(attempt: WorkloadAttempt) -> Interval | None:
    """Move the ratio and the share of the roofline to their ends; distances add in squares."""
    if attempt.ratio is None:
        return (0.0, 0.0)
    shares, ratios = _fraction_ends(attempt), attempt.interval
    if shares is None or ratios is None:
        return None
    ratio, share = attempt.ratio, attempt.sol_fraction or 0.0
    value = measures.closed_gap(1.0, ratio, share)
    low, high = (
        math.hypot(
            value - measures.closed_gap(1.0, ratios[end], share),
            value - measures.closed_gap(1.0, ratio, shares[end]),
        )
        for end in (0, 1)
    )
    return max(0.0, value - low), min(1.0, value + high)
