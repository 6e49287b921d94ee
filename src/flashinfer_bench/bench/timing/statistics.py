"""What samples say: medians, order-statistic intervals, spread. Plain numbers in, plain numbers out."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

Interval = tuple[float, float]

CONFIDENCE = 0.95


def median_interval(values: Sequence[float], *, confidence: float = CONFIDENCE) -> Interval | None:
    """Return an interval that covers the population's median with at least this confidence.

    Order statistics: of n independent values, the k-th smallest and the k-th largest enclose the median
    with probability 1 − 2·P(B < k), B binomial (n, ½), whatever the distribution (Conover, Practical
    Nonparametric Statistics, 3rd ed., §3.2). `None` when even the extremes do not reach the confidence
    (fewer than six values for 95%).

    >>> median_interval([5, 1, 4, 2, 3, 6])
    (1, 6)
    >>> median_interval([1, 2, 3]) is None
    True
    """
    ordered = sorted(values)
    rank = _largest_rank(len(ordered), confidence)
    return None if rank == 0 else (ordered[rank - 1], ordered[-rank])


def quartiles(values: Sequence[float]) -> Interval:
    """Return the first and third quartile, linear between the closest ranks."""
    if len(values) == 1:
        return values[0], values[0]
    first, _, third = statistics.quantiles(values, n=4, method="inclusive")
    return first, third


def noise(values: Sequence[float]) -> float:
    """Return the interquartile range over the median: 0 is perfectly quiet.

    >>> noise([1.0, 1.0, 1.0])
    0.0
    """
    middle = statistics.median(values)
    first, third = quartiles(values)
    return (third - first) / middle if middle > 0 else 0.0


def block_ratios(
    baseline: Sequence[Sequence[float]], contestant: Sequence[Sequence[float]]
) -> list[float]:
    """Return, block by block, how many times faster the contestant was: medians against each other.

    >>> block_ratios([[4.0, 4.0], [6.0]], [[2.0, 2.0], [2.0]])
    [2.0, 3.0]
    """
    return [
        statistics.median(slow) / statistics.median(fast)
        for slow, fast in zip(baseline, contestant, strict=True)
        if slow and fast and statistics.median(fast) > 0
    ]


def _largest_rank(count: int, confidence: float) -> int:
    """Return the largest k whose outside probability 2·P(B < k) stays within 1 − confidence."""
    outside, rank = 0.0, 0
    while rank < count // 2:
        outside += 2 * math.comb(count, rank) / 2**count
        if outside > 1 - confidence:
            break
        rank += 1
    return rank
