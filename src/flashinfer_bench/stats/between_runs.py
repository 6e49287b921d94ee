"""Between-run variance: how much runs of the same code differ beyond what the blocks within them tell.

Whatever the machine, runs of equal code were found 0.8 to 4.1 times as far apart as the intervals within them
say, mostly two to three times, on kernels of 4 µs to 1 ms, on a GPU and on busy processors, while the differences
themselves went from 0.1% to 26% (docs/reports.md). So what is estimated, and assumed before anything tells, is that
factor.
"""

from __future__ import annotations

import functools
import itertools
import math
import statistics
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashinfer_bench.stats.intervals import CONFIDENCE
from flashinfer_bench.stats.means import geometric_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from flashinfer_bench.stats.intervals import Interval

    Uncertain = tuple[float, Interval | None]

ASSUMED = 3.0
"""How many times as far apart as their intervals say, before anything tells."""
MOST_ASSUMED = 0.15
"""By how much runs differ at most, as a logarithm's deviation, while the factor is the assumed one."""
ASSUMED_WEIGHT = 4
"""For how many observations of a factor the assumed one stands."""

_NORMAL = round(statistics.NormalDist().inv_cdf((1 + CONFIDENCE) / 2), 6)
"""Standard errors that an interval reaches to either side."""
_AS_GOOD_AS_NORMAL = 1000
_LEAST_ERROR = 2e-4
"""A clock that ticks coarsely makes intervals of no width; one such reference must not widen all others."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What equal code says about runs: squares of differences in units of their own intervals, and how many."""

    squares: float = 0.0
    freedom: int = 0

    def __add__(self, other: Evidence) -> Evidence:
        return Evidence(self.squares + other.squares, self.freedom + other.freedom)


@dataclass(frozen=True, slots=True)
class BetweenRunVariance:
    """How many times as far apart as their intervals say runs of the same code are."""

    factor: float
    freedom: int
    observed: int
    """How many observations it rests on; without any it is assumed."""
    moved: float = 0.0
    """What the machine did to all that was timed, where that does not cancel: the logarithm of a ratio."""

    def stretched(self, value: float, interval: Interval) -> tuple[Interval, float]:
        """Let a 95% interval know it; and say which part of its new reach jobs timed together may have in common."""
        parts = [self._reach(abs(math.log(end / value))) for end in interval]
        (down, up), shared = (reach for reach, _ in parts), max(part for _, part in parts)
        return (value * math.exp(-down), value * math.exp(up)), shared

    def _reach(self, within: float) -> tuple[float, float]:
        """Add what runs differ by to a 95% reach within them; what is wide already knows most of it."""
        between = min(
            math.sqrt(self.factor**2 - 1) * within,
            _NORMAL * MOST_ASSUMED * self.factor / ASSUMED,
        )
        student = student_quantile(CONFIDENCE, self.freedom) / _NORMAL
        shared = math.hypot(student * between, _NORMAL * self.moved)
        reach = math.hypot(student * within, shared)
        return reach, 1.0 if self.moved else shared / reach if reach else 0.0


def between_run_variance(evidence: Evidence, *, moved: float = 0.0) -> BetweenRunVariance:
    """Weigh what was observed with what is assumed (the scale of a normal sample, with its conjugate prior)."""
    freedom = ASSUMED_WEIGHT + evidence.freedom
    square = (ASSUMED_WEIGHT * ASSUMED**2 + evidence.squares) / freedom
    return BetweenRunVariance(math.sqrt(max(1.0, square)), freedom, evidence.freedom, moved)


def of_references(references: Mapping[str, Sequence[Uncertain]]) -> Evidence:
    """Ask references, the same code on both sides: ratios of new to old, by definition.

    A definition's references are timed by one process a run, so each definition is one observation. What all
    have in common is what the machine did, and cancels; of a single one that cannot be told, and all of it counts.
    """
    known = [each for group in references.values() for each in _logarithms(group)]
    if not known:
        return Evidence()
    centre = _centre(known) if len(references) > 1 else 0.0
    squares = (_mean_square(_logarithms(group), centre) for group in references.values())
    return Evidence(math.fsum(squares), max(1, len(references) - 1))


def of_repeats(jobs: Sequence[Sequence[Uncertain]]) -> Evidence:
    """Ask runs of the same code: the values of each job of one definition, which share their processes, by run."""
    logarithms = [each for each in map(_logarithms, jobs) if len(each) > 1]
    if not logarithms:
        return Evidence()
    freedom = max(map(len, logarithms)) - 1
    each = [_mean_square(job, _centre(job)) * len(job) / (len(job) - 1) for job in logarithms]
    return Evidence(freedom * math.fsum(each) / len(each), freedom)


@dataclass(frozen=True, slots=True)
class Part:
    """One of several ratios that are averaged."""

    ratio: float
    interval: Interval | None
    shared: float
    """Part of the interval's reach that others of its group have in common with it."""
    group: str


def mean_of_parts(parts: Sequence[Part]) -> tuple[float | None, Interval | None]:
    """Average ratios geometrically; the interval is None unless each has one.

    On the logarithmic scale noise within runs adds in squares; what runs differ by adds up within a group, for
    its jobs were timed by the same processes, beside the same reference, in the same minutes.
    """
    mean = geometric_mean([part.ratio for part in parts])
    if mean is None or any(not part.interval or part.interval[0] <= 0 for part in parts):
        return mean, None
    down, up = (_reach(parts, end) for end in (0, 1))
    return mean, (mean * math.exp(-down), mean * math.exp(up))


def scaled(value: float, interval: Interval, factor: float) -> Interval:
    """Make both sides of an interval so many times as long, on the logarithmic scale.

    >>> [round(end, 3) for end in scaled(1.0, (0.5, 2.0), 2.0)]
    [0.25, 4.0]
    """
    low, high = (value * (end / value) ** factor for end in interval)
    return low, high


@functools.cache
def student_quantile(confidence: float, freedom: int) -> float:
    """Give the reach that a Student's t of so many degrees of freedom keeps within with a confidence.

    >>> round(student_quantile(0.95, 4), 3), round(student_quantile(0.9995, 6), 3)
    (2.776, 6.788)
    """
    freedom = min(freedom, _AS_GOOD_AS_NORMAL)
    low, high = 0.0, 1.0
    while _within(high, freedom) < confidence:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, freedom) < confidence else (low, middle)
    return high


def _logarithms(values: Iterable[Uncertain]) -> list[tuple[float, float]]:
    """Give logarithms and their standard errors, as intervals say."""
    return [
        (
            math.log(value),
            max(_LEAST_ERROR, math.log(interval[1] / interval[0]) / (2 * _NORMAL)),
        )
        for value, interval in values
        if interval is not None and interval[0] > 0
    ]


def _centre(logarithms: Sequence[tuple[float, float]]) -> float:
    total = math.fsum(1 / error**2 for _, error in logarithms)
    return math.fsum(log / error**2 for log, error in logarithms) / total


def _mean_square(logarithms: Sequence[tuple[float, float]], centre: float) -> float:
    """Say how far values lie from a centre in units of their errors; nothing known is as far as is assumed."""
    squares = [((log - centre) / error) ** 2 for log, error in logarithms]
    return math.fsum(squares) / len(squares) if squares else ASSUMED**2


def _reach(parts: Sequence[Part], end: int) -> float:
    """Add up on one side of the mean."""
    squares: list[float] = []
    shared: defaultdict[str, float] = defaultdict(float)
    for part in parts:
        distance = abs(math.log((part.interval or (1.0, 1.0))[end] / part.ratio))
        squares.append(distance**2 * (1 - part.shared**2))
        shared[part.group] += distance * part.shared
    return math.sqrt(math.fsum(squares) + math.fsum(x * x for x in shared.values())) / len(parts)


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
