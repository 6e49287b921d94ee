"""What samples say: medians, order-statistic intervals, spread. Plain numbers in, plain numbers out."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from flashinfer_bench.report.intervals import (
    CONFIDENCE,
    median_interval,
    median_ratio,
    neighbour_correlation,
    series_interval,
)
from flashinfer_bench.report.numbers import Interval

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "CONFIDENCE",
    "Interval",
    "block_ratios",
    "median_interval",
    "median_ratio",
    "neighbour_correlation",
    "noise",
    "quartiles",
    "series_interval",
]


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
    baseline: Sequence[Sequence[float]], participant: Sequence[Sequence[float]]
) -> list[float]:
    """Return, block by block, how many times faster the participant was: medians against each other.

    >>> block_ratios([[4.0, 4.0], [6.0]], [[2.0, 2.0], [2.0]])
    [2.0, 3.0]
    """
    return [
        statistics.median(slow) / statistics.median(fast)
        for slow, fast in zip(baseline, participant, strict=True)
        if slow and fast and statistics.median(fast) > 0
    ]
