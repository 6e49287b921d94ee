"""What blocks of samples say: quartiles, spread, ratios block by block."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.stats.intervals import Interval


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
