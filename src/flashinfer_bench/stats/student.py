"""Student's t: quantiles, how improbable a ratio is, and which of many are not by chance."""

from __future__ import annotations

import functools
import itertools
import math
from typing import TYPE_CHECKING

from flashinfer_bench.stats.intervals import CONFIDENCE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.stats.intervals import Interval

AS_GOOD_AS_NORMAL = 1000


def beyond(ratio: float, interval: Interval, freedom: int, threshold: float) -> float:
    """Give the probability of a ratio so far from 1 ± threshold, to either side, where it is no further.

    >>> round(beyond(1.3, (1.2, 1.4), 6, 0.02), 5), beyond(1.01, (0.9, 1.1), 6, 0.02)
    (0.00031, 1.0)
    """
    reach = math.log(ratio / interval[0] if ratio > 1 else interval[1] / ratio)
    distance = abs(math.log(ratio)) - math.log1p(threshold)
    if distance <= 0 or reach <= 0:
        return float(distance <= 0)
    return 1 - _within(student_quantile(CONFIDENCE, freedom) * distance / reach, freedom)


def discoveries(probabilities: Sequence[float], *, level: float = 1 - CONFIDENCE) -> float:
    """Give the largest of many probabilities that is not by chance; -1 where all may be.

    Benjamini and Hochberg (1995): the i-th smallest of n counts up to level · i / n. Where nothing changed, one is
    found in `level` of all cases; else so many of those found are there by chance.

    >>> discoveries([0.04]), discoveries([0.04, 0.9]), discoveries([0.04, 0.01])
    (0.04, -1.0, 0.04)
    """
    count = len(probabilities)
    ranked = enumerate(sorted(probabilities), start=1)
    return max((each for rank, each in ranked if each <= level * rank / count), default=-1.0)


@functools.cache
def student_quantile(confidence: float, freedom: int) -> float:
    """Give the reach that a Student's t of so many degrees of freedom keeps within with a confidence.

    >>> round(student_quantile(0.95, 4), 3), round(student_quantile(0.9995, 6), 3)
    (2.776, 6.788)
    """
    freedom = min(freedom, AS_GOOD_AS_NORMAL)
    low, high = 0.0, 1.0
    while _within(high, freedom) < confidence:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, freedom) < confidence else (low, middle)
    return high


def _within(reach: float, freedom: int) -> float:
    """Give the probability that a Student's t stays within ±reach (Abramowitz and Stegun, 26.7.3 and 26.7.4)."""
    angle = math.atan(reach / math.sqrt(freedom))
    cosine = math.cos(angle)
    is_odd = freedom % 2
    steps = range(2 + is_odd, freedom, 2)
    terms = itertools.accumulate(
        ((step - 1) / step * cosine**2 for step in steps),
        lambda term, factor: term * factor,
        initial=cosine if is_odd else 1.0,
    )
    series = math.sin(angle) * math.fsum(terms) if freedom > 1 else 0.0
    return (angle + series) * 2 / math.pi if is_odd else series
