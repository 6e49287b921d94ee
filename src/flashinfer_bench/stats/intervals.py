"""Intervals of medians and of ratios: plain numbers in, plain numbers out."""

from __future__ import annotations

import bisect
import itertools
import math
import statistics
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

Interval = tuple[float, float]

CONFIDENCE = 0.95
"""Of every interval that does not say otherwise."""

_MOST_LIKENESS = 0.9
_BIAS_TERMS = 4


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


def series_interval(values: Sequence[float]) -> Interval | None:
    """Return a 95% interval of the median of values given in the order they were taken; `None` of fewer than six.

    Neighbours that are alike tell less than their number says: an interval at ranks (n/2 ± d) becomes one at
    (n/2 ± d·√((1 + r) / (1 − r))), r the correlation of neighbours' ranks (the variance of a mean of an
    autoregressive series; Priestley, Spectral Analysis and Time Series, §5.3.2), freed of the bias that few
    values give it (Marriott and Pope, Biometrika 41, 1954). It is never narrower than `median_interval`,
    and reaches no further than the extremes.

    >>> series_interval([1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 9])  # as for values in any order
    (1, 2)
    >>> series_interval([1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 3, 9])  # it was creeping up
    (1, 9)
    """
    ordered, count = sorted(values), len(values)
    rank = _largest_rank(count, CONFIDENCE)
    if rank == 0:
        return None
    alike = likeness(values)
    widened = (count / 2 - rank) * math.sqrt((1 + alike) / (1 - alike))
    rank = max(1, round(count / 2 - widened))
    return ordered[rank - 1], ordered[-rank]


def likeness(values: Sequence[float]) -> float:
    """Return how alike neighbours are, freed of the bias that few values give it: 0 is not at all.

    >>> likeness([1, 2] * 50), likeness(range(100)), likeness([1.0, 2.0])
    (0.0, 0.9, 0.0)
    """
    count = len(values)
    if count <= _BIAS_TERMS:
        return 0.0
    unbiased = (count * neighbour_correlation(values) + 1) / (count - _BIAS_TERMS)
    return min(_MOST_LIKENESS, max(0.0, unbiased))


def neighbour_correlation(values: Sequence[float]) -> float:
    """Return the correlation of each value's rank with the next one's; of few values it comes out low.

    >>> round(neighbour_correlation(range(100)), 2), round(neighbour_correlation([1, 2] * 50), 2)
    (0.97, -0.99)
    """
    offsets = _rank_offsets(values)
    scale = math.fsum(offset * offset for offset in offsets)
    products = (one * next_one for one, next_one in itertools.pairwise(offsets))
    return math.fsum(products) / scale if scale > 0 else 0.0


def median_ratio(ratios: Sequence[float]) -> float:
    """Return the median of ratios; of two in the middle the geometric mean, so that half and double cancel.

    >>> median_ratio([0.5, 2.0]), median_ratio([1.0, 3.0, 2.0])
    (1.0, 2.0)
    """
    return math.sqrt(statistics.median_low(ratios) * statistics.median_high(ratios))


def _rank_offsets(values: Sequence[float]) -> list[float]:
    """Return how far each value's rank lies from the middle one; equal values share theirs."""
    ordered = sorted(values)
    return [
        (bisect.bisect_left(ordered, value) + bisect.bisect_right(ordered, value) - len(ordered))
        / 2
        for value in values
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
