"""Scores: many ratios become one number. Each formula once, plain numbers in, plain numbers out.

A ratio is the time of what is compared with over the time of what is scored: above 1 is faster. None
stands for an attempt that failed.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from flashinfer_bench.stats.means import geometric_mean, mean_interval

if TYPE_CHECKING:
    from flashinfer_bench.stats.intervals import Interval

Attempts = Mapping[str, Sequence[float | None]]
"""Ratios by problem, one entry an attempt."""


class Beyond(enum.StrEnum):
    """Whether a ratio that equals the threshold counts."""

    MORE = ">"
    AT_LEAST = ">="

    def holds(self, ratio: float | None, threshold: float) -> bool:
        """Tell whether a ratio counts; one that failed is 0, which is at least 0."""
        known = ratio or 0.0
        return known > threshold if self is Beyond.MORE else known >= threshold


@dataclass(frozen=True, slots=True)
class Preset:
    """A project's own way to count what is right and fast."""

    name: str
    """Of the project it comes from."""
    beyond: Beyond
    thresholds: tuple[float, ...]
    is_by_problem: bool
    """Whether every problem weighs the same; else every attempt does."""
    source: str


KERNELBENCH = Preset(
    "kernelbench",
    Beyond.MORE,
    (0.0, 0.5, 0.8, 1.0, 1.5, 2.0),
    is_by_problem=True,
    source="Ouyang et al., KernelBench, 2025, §3.2",
)
FLASHINFER_BENCH = Preset(
    "flashinfer-bench",
    Beyond.AT_LEAST,
    (0.7, 0.95, 1.0),
    is_by_problem=False,
    source="the leaderboard of bench.flashinfer.ai",
)
PRESETS = (KERNELBENCH, FLASHINFER_BENCH)


def fast_p(attempts: Attempts, threshold: float, beyond: Beyond) -> float:
    """Give the share of attempts that are right and fast enough, averaged over problems.

    >>> fast_p({"a": [2.0, None], "b": [1.0]}, 1.0, Beyond.MORE)
    0.25
    >>> fast_p({"all": [2.0, 0.9, 1.0, None]}, 1.0, Beyond.AT_LEAST)
    0.5
    """
    shares = [
        sum(beyond.holds(ratio, threshold) for ratio in ratios) / len(ratios)
        for ratios in attempts.values()
        if ratios
    ]
    return fmean(shares) if shares else math.nan


def win_at_p(ratios: Sequence[float | None], threshold: float) -> float:
    """Give the share of attempted workloads won by more than a factor; failures lose.

    >>> win_at_p([2.0, 0.9, 1.0, None], 1.0)
    0.25
    """
    return fast_p({"": ratios}, threshold, Beyond.MORE)


def pass_at_k(are_right: Mapping[str, Sequence[bool]], k: int) -> float:
    """Estimate how often one of k samples is right, averaged over problems (Chen et al. 2021, eq. 1).

    Every problem needs k samples or more; the estimate is unbiased.

    >>> pass_at_k({"a": [True, False, False]}, 2)
    0.6666666666666667
    """
    estimates = [1 - _all_wrong(len(each), sum(each), k) for each in are_right.values()]
    return fmean(estimates) if estimates else math.nan


def arithmetic(ratios: Sequence[float | None]) -> float:
    """Average the ratios; one failure loses everything.

    >>> arithmetic([2.0, 0.9, 1.0]), arithmetic([2.0, None])
    (1.3, 0.0)
    """
    known = [ratio for ratio in ratios if ratio is not None]
    return fmean(known) if known and len(known) == len(ratios) else 0.0


def arithmetic_interval(
    ratios: Sequence[tuple[float, Interval | None]],
) -> Interval | None:
    """Give the interval of an average of independent ratios: distances add in squares.

    >>> arithmetic_interval([(1.0, (0.7, 1.3)), (2.0, (1.6, 2.4))])
    (1.25, 1.75)
    """
    down, up = [], []
    for ratio, interval in ratios:
        if interval is None:
            return None
        down.append(ratio - interval[0])
        up.append(interval[1] - ratio)
    if not ratios:
        return None
    middle = fmean(ratio for ratio, _ in ratios)
    return middle - math.hypot(*down) / len(ratios), middle + math.hypot(*up) / len(ratios)


def geometric(ratios: Sequence[float | None]) -> float | None:
    """Take the geometric mean of what passed; None where nothing did.

    >>> geometric([2.0, 0.5, None])
    1.0
    """
    return geometric_mean([ratio for ratio in ratios if ratio is not None])


def geometric_interval(
    ratios: Sequence[tuple[float, Interval | None]],
) -> Interval | None:
    """Give the interval of a geometric mean of independent ratios."""
    return mean_interval(ratios)


def covered(ratios: Sequence[float | None], scope: int) -> float | None:
    """Take the geometric mean over everything in scope: what failed or was not tried is a ratio of 1.

    That is the speedup of whoever installs all that passed and lets the baseline answer the rest.

    >>> covered([4.0, None], scope=4)
    1.414213562373095
    """
    known = [ratio for ratio in ratios if ratio is not None]
    return geometric_mean(known + [1.0] * (scope - len(known)))


def mean_sol_fraction(fractions: Sequence[float | None]) -> float:
    """Average shares of the roofline, 1 at most; a failure is 0.

    >>> mean_sol_fraction([0.5, 1.2, None])
    0.5
    """
    return fmean(min(fraction or 0.0, 1.0) for fraction in fractions) if fractions else math.nan


def closed_gap(latency: float, compared_with: float, fraction: float) -> float:
    """Say how much of the way to the roofline is gone: 0.5 as fast as what it is compared with, 1 at it.

    `sol_score` with the roofline at fraction · T, or at T where that is beyond it.

    >>> closed_gap(2.0, 2.0, 0.5), closed_gap(1.0, 2.0, 1.0), round(closed_gap(1.0, 2.0, 0.5), 3)
    (0.5, 1.0, 0.75)
    """
    return sol_score(latency, compared_with, min(fraction, 1.0) * latency)


def sol_score(time: float, baseline: float, at_sol: float) -> float:
    """Score as SOL-ExecBench does, where `time` is not below the speed of light.

    1 / (1 + (T - L) / (B - L)): 0.5 as fast as the baseline, 1 at the speed of light. Where the baseline is no
    slower than the speed of light, 1 at it and 0 else.

    >>> sol_score(2.0, 2.0, 1.0), sol_score(1.0, 2.0, 1.0), sol_score(3.0, 1.0, 1.0)
    (0.5, 1.0, 0.0)
    """
    gap = baseline - at_sol
    if gap <= 0:
        return float(time <= at_sol)
    return gap / (gap + (time - at_sol))


def places(values: Sequence[float], intervals: Sequence[Interval | None]) -> list[str]:
    """Say which ranks are possible, highest first: after those whose whole interval lies above, before those below.

    Overlapping is no equality: the first may overlap with the second and that with the third, though the first
    is surely above the third. A range says so where a shared number could not.

    >>> places([3.0, 2.6, 2.0], [(2.8, 3.2), (2.2, 2.9), (1.8, 2.3)])
    ['1-2', '1-3', '2-3']
    >>> places([3.0, 2.0, 2.0], [None, None, None])
    ['1', '2-3', '2-3']
    """
    ends = [
        (value, value) if interval is None or math.isnan(value) else interval
        for value, interval in zip(values, intervals, strict=True)
    ]
    ranges = [
        (
            1 + sum(other[0] > mine[1] for other in ends),
            len(ends) - sum(other[1] < mine[0] for other in ends),
        )
        for mine in ends
    ]
    return [str(best) if best == worst else f"{best}-{worst}" for best, worst in ranges]


def _all_wrong(count: int, right: int, k: int) -> float:
    """How likely k samples drawn without putting back are all wrong."""
    return math.comb(count - right, k) / math.comb(count, k)
