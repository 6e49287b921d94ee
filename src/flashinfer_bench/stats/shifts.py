"""How many times as large one set of values is as another, measured apart: rank statistics, plain numbers."""

from __future__ import annotations

import functools
import math
import statistics
from typing import TYPE_CHECKING

from flashinfer_bench.stats.intervals import CONFIDENCE, likeness, median_ratio
from flashinfer_bench.stats.student import student_quantile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.stats.intervals import Interval

_MOST_EXACT_PAIRS = 1000


def shift(
    old: Sequence[float], new: Sequence[float], *, confidence: float = CONFIDENCE
) -> tuple[float, Interval | None]:
    """Return how many times as large the new values are as the old ones, and the interval of that.

    The median of the ratios of all pairs (Hodges and Lehmann), and Moses' interval for it: the ratios at
    the ranks that the Mann-Whitney statistic reaches by chance, whatever the distribution, provided it is
    the same on both sides but for a factor (Hollander, Wolfe and Chicken, Nonparametric Statistical
    Methods, 3rd ed., §4.2-4.3). None where the extremes do not reach the confidence: 4 against 4 is the
    least for 95%.

    >>> shift([1.0, 1.1, 0.9, 1.05], [2.0, 2.2, 1.8, 2.1])
    (2.0, (1.6363636363636362, 2.4444444444444446))
    >>> shift([1.0, 1.0, 1.0], [2.0, 2.0, 2.0])
    (2.0, None)
    """
    return _at_rank(_ratios(old, new), _rank(len(old), len(new), confidence))


def series_shift(old: Sequence[float], new: Sequence[float]) -> tuple[float, Interval]:
    """Return the same of values in the order they were taken, of which neighbours may be alike.

    The ratio of geometric means, and Welch's interval of it, as much wider as `series_interval` is. Blocks that were
    disturbed or not have two values, between which a median jumps; their mean does not.

    >>> round(series_shift([1.0, 2.0, 1.0, 2.0, 1.0, 2.0], [2.0, 4.0, 2.0, 4.0, 2.0, 4.0])[0], 9)
    2.0
    """
    logs = [[math.log(each) for each in side] for side in (old, new)]
    value = statistics.fmean(logs[1]) - statistics.fmean(logs[0])
    alike = statistics.fmean(map(likeness, (old, new)))
    inflation = (1 + alike) / (1 - alike)
    squares = [statistics.variance(each) / len(each) * inflation for each in logs]
    variance = math.fsum(squares)
    parts = (square**2 / (len(each) - 1) for square, each in zip(squares, logs, strict=True))
    freedom = variance**2 / (math.fsum(parts) or 1.0)
    reach = student_quantile(CONFIDENCE, max(1, math.floor(freedom))) * math.sqrt(variance)
    return math.exp(value), (math.exp(value - reach), math.exp(value + reach))


def quotient(
    new: float, new_interval: Interval | None, old: float, old_interval: Interval | None
) -> tuple[float, Interval | None]:
    """Return a ratio of two values measured apart, from the interval of each.

    Distances add in squares on the logarithmic scale, downward and upward apart (Zou and Donner, Statistics
    in Medicine 27, 2008).

    >>> ratio, (low, high) = quotient(2.0, (2.0, 2.2), 1.0, (0.9, 1.0))
    >>> ratio, low, round(high, 4)
    (2.0, 2.0, 2.3053)
    """
    value = new / old
    if new_interval is None or old_interval is None:
        return value, None
    if not 0 < new_interval[0] <= new <= new_interval[1]:
        return value, None
    if not 0 < old_interval[0] <= old <= old_interval[1]:
        return value, None
    down = math.hypot(math.log(new / new_interval[0]), math.log(old_interval[1] / old))
    up = math.hypot(math.log(new_interval[1] / new), math.log(old / old_interval[0]))
    return value, (value * math.exp(-down), value * math.exp(up))


def least_confidence(first: int, second: int) -> float:
    """Return the greatest confidence that so many values on either side can give.

    >>> least_confidence(4, 4)
    0.9714285714285714
    """
    return 1 - 2 / math.comb(first + second, first)


def _ratios(old: Sequence[float], new: Sequence[float]) -> list[float]:
    return sorted(one / other for one in new for other in old)


def _at_rank(ratios: list[float], rank: int) -> tuple[float, Interval | None]:
    return median_ratio(ratios), (ratios[rank - 1], ratios[-rank]) if rank > 0 else None


@functools.cache
def _rank(first: int, second: int, confidence: float) -> int:
    """Return the largest k for which 2·P(U < k) stays within 1 − confidence; U is Mann and Whitney's."""
    most_outside = 1 - confidence
    if min(first, second) == 0 or 1 - least_confidence(first, second) > most_outside:
        return 0
    pairs = first * second
    if pairs > _MOST_EXACT_PAIRS:
        spread = math.sqrt(pairs * (first + second + 1) / 12)
        outside = statistics.NormalDist().inv_cdf(most_outside / 2)
        return max(1, math.floor(pairs / 2 + outside * spread - 0.5))
    total, below, rank = math.comb(first + second, first), 0, 0
    for count in _arrangements(first, second):
        below += count
        if 2 * below > most_outside * total:
            break
        rank += 1
    return rank


def _arrangements(first: int, second: int) -> list[int]:
    """Count the orders of two sets by Mann and Whitney's U: the coefficients of a Gaussian binomial."""
    counts = [1] + [0] * (first * second)
    for step in range(1, first + 1):
        for index in range(len(counts) - 1, second + step - 1, -1):  # times 1 − q^(second + step)
            counts[index] -= counts[index - second - step]
        for index in range(step, len(counts)):  # over 1 − q^step
            counts[index] += counts[index - step]
    return counts
