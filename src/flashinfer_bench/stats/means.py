"""Geometric means of ratios, and intervals of them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.stats.intervals import Interval


def geometric_mean(values: Sequence[float]) -> float | None:
    """Average ratios: half and double cancel. None of nothing, or where a value is not positive.

    >>> geometric_mean([0.5, 2.0])
    1.0
    """
    if not values or min(values) <= 0:
        return None
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def mean_interval(ratios: Sequence[tuple[float, Interval | None]]) -> Interval | None:
    """Give the interval of a geometric mean of independent ratios, each with its own interval.

    On the logarithmic scale distances from the ratios add in squares, downward and upward apart. None
    unless every ratio has an interval.
    """
    if not ratios:
        return None
    down, up = [], []
    for ratio, interval in ratios:
        if interval is None or not 0 < interval[0] <= ratio <= interval[1]:
            return None
        down.append(math.log(ratio / interval[0]))
        up.append(math.log(interval[1] / ratio))
    middle = math.fsum(math.log(ratio) for ratio, _ in ratios) / len(ratios)
    below, above = math.hypot(*down) / len(ratios), math.hypot(*up) / len(ratios)
    return math.exp(middle - below), math.exp(middle + above)
