"""How much runs of the same code differ beyond what the blocks within them tell: a variance of its own.

The logarithms of a job's times in two runs differ by what its blocks say (a standard error), and by an amount that
belongs to the runs: another process, another minute. That variance is estimated over jobs, as between the studies of a
meta-analysis, and added to the square of each job's own error (docs/adr/0010-runs-differ-by-an-amount-of-their-own.md).
"""

from __future__ import annotations

import functools
import itertools
import math
import statistics
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from flashinfer_bench.stats.intervals import CONFIDENCE
from flashinfer_bench.stats.means import geometric_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.stats.intervals import Interval

    Uncertain = tuple[float, Interval | None]

ASSUMED = 3.3
"""How many times as far apart as their blocks say two runs of one job are taken to lie, before anything tells."""
MOST_ASSUMED = 0.15
"""By how much runs are taken to differ at most, as a logarithm's deviation, before anything tells."""
LEAST_ASSUMED = 0.005
"""And at least: cards of one kind, and the minutes of one card, are not alike to less."""
ASSUMED_WEIGHT = 4
"""For how many observations the assumption stands."""
ASSUMED_FREEDOM = 8
"""Degrees of freedom that it brings along: it was measured on several machines."""

_NORMAL = round(statistics.NormalDist().inv_cdf((1 + CONFIDENCE) / 2), 6)
"""Standard errors that an interval reaches to either side."""
_AS_GOOD_AS_NORMAL = 1000
_LEAST_ERROR = 2e-4
"""A clock that ticks coarsely makes intervals of no width."""
_BEND = 2.0
"""Residuals beyond so many deviations count as that many (Huber 1964)."""
_EXPECTED = 0.920544
"""Mean of min(z², 2²) of a normal z."""
_BISECTIONS = 50
_ENOUGH = 4
"""Observations of jobs themselves, from which on references are not asked."""
_LEAST_BOUND = 3
"""Observations of references that bound what jobs say."""
_MOST_BEYOND_REFERENCES = 2.0
"""How many times as much as references jobs are taken to differ: beyond it their code has changed."""


@dataclass(frozen=True, slots=True)
class RunDifference:
    """How far two runs of one job came out apart, if its code is the same."""

    value: float
    """The logarithm of their ratio."""
    error: float
    """Its standard error, as blocks say."""
    process: str
    """Jobs that one process timed may all be off alike."""
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Spread:
    """What observations say: the variance between two runs, and how many independent observations there are."""

    variance: float = 0.0
    count: float = 0.0

    def __add__(self, other: Spread) -> Spread:
        count = self.count + other.count
        if not count:
            return self
        return Spread((self.variance * self.count + other.variance * other.count) / count, count)


@dataclass(frozen=True, slots=True)
class BetweenRuns:
    """What is known of how runs differ."""

    repeats: Spread = field(default_factory=Spread)
    """Of runs of equal code on one side."""
    jobs: Spread = field(default_factory=Spread)
    """Of jobs on both sides, most of which are taken to be alike but for a common factor."""
    is_centred: bool = True
    """Whether that factor could be taken off; else a change of the code may be all that jobs show."""
    references: Spread = field(default_factory=Spread)
    moved: float = 0.0
    """What the machine did to all that was timed, where that does not cancel: the logarithm of a ratio."""

    @property
    def observed(self) -> int:
        """How many observations tell; without any, all is assumed."""
        known = self.repeats.count + self.jobs.count
        return round(known + min(self.references.count, max(0.0, _ENOUGH - known)))

    def widened(
        self,
        value: float,
        interval: Interval,
        *,
        share: float = 1.0,
        confidence: float = CONFIDENCE,
    ) -> Widened:
        """Let the 95% interval of a ratio within runs know how runs differ; `share`: 1 of a pair, 1/n of n a side."""
        parts = [abs(math.log(end / value)) for end in interval]
        between, freedom = self._variance(math.fsum(parts) / (2 * _NORMAL), share)
        normal = student_quantile(confidence, _AS_GOOD_AS_NORMAL) / _NORMAL
        student = student_quantile(confidence, freedom)
        apart, moved = student * math.sqrt(between), student * abs(self.moved)
        down, up = (math.hypot(normal * part, apart, moved) for part in parts)
        widest = max(down, up)
        return Widened(
            (value * math.exp(-down), value * math.exp(up)),
            deviation=math.sqrt(between / share),
            freedom=freedom,
            shared=apart / widest if widest else 0.0,
            common=moved / widest if widest else 0.0,
        )

    def _variance(self, error: float, share: float) -> tuple[float, int]:
        """Weigh what was seen with what is assumed of a job with this error (a scaled inverse chi-squared prior)."""
        assumed = error**2 * (ASSUMED**2 - 1)
        assumed = min(max(assumed, share * LEAST_ASSUMED**2), share * MOST_ASSUMED**2)
        seen = self.repeats + Spread(
            min(self.jobs.variance, self._bound(assumed / share)), self.jobs.count
        )
        references = Spread(
            self.references.variance,
            min(self.references.count, max(0.0, _ENOUGH - seen.count)),
        )
        seen += references
        weight = ASSUMED_WEIGHT + seen.count
        between = (ASSUMED_WEIGHT * assumed + share * seen.count * seen.variance) / weight
        return between, round(ASSUMED_FREEDOM + seen.count)

    def _bound(self, assumed: float) -> float:
        """Say how much jobs of equal code may differ: what changed tells nothing of runs."""
        beyond = _MOST_BEYOND_REFERENCES**2 if self.is_centred else 1.0
        bound = max(assumed, beyond * self.references.variance)
        is_known = self.references.count >= _LEAST_BOUND or not self.is_centred
        return bound if is_known else max(bound, MOST_ASSUMED**2)


@dataclass(frozen=True, slots=True)
class Widened:
    """An interval that knows how runs differ."""

    interval: Interval
    deviation: float
    """By how much two runs of it differ, as a logarithm's deviation."""
    freedom: int
    shared: float
    """Part of the reach that jobs timed by the same processes may have in common."""
    common: float
    """Part of it that all jobs have in common."""


def spread(observations: Sequence[RunDifference]) -> Spread:
    """Estimate how much runs differ beyond the errors of observations.

    The variance v that solves: mean of min(r²/(e² + v), 2²) = its mean for a normal r. That is Paule and Mandel's
    equation (1982) for the variance between studies, with Huber's bounded squares (1964, proposal 2), so that a few
    jobs that changed do not count as noise.

    >>> quiet = [RunDifference(value, 0.01, str(value)) for value in (-0.01, 0.0, 0.01)]
    >>> spread(quiet)
    Spread(variance=0.0, count=3.0)
    """
    count = _independent(observations)
    total = math.fsum(each.weight for each in observations)

    def excess(variance: float) -> float:
        squares = (each.weight * min(_BEND**2, _square(each, variance)) for each in observations)
        return math.fsum(squares) - _EXPECTED * total

    if not observations or excess(0.0) <= 0:
        return Spread(0.0, count)
    low, high = 0.0, max(each.value**2 for each in observations) / _EXPECTED
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return Spread(high, count)


def repeats(values: Sequence[Uncertain], process: str) -> list[RunDifference]:
    """Turn the values of runs of one code into observations of how far two runs lie apart."""
    known = [each for each in map(logarithm, values) if each]
    if len(known) < 2:  # noqa: PLR2004  # one run does not show how runs differ
        return []
    middle = math.fsum(log for log, _ in known) / len(known)
    share = (len(known) - 1) / len(known)
    return [
        RunDifference(
            (log - middle) * math.sqrt(2 / share), error * math.sqrt(2), f"{process} {run}", share
        )
        for run, (log, error) in enumerate(known)
    ]


def has_centre(observations: Sequence[RunDifference]) -> bool:
    """Tell whether there are processes enough to see what all have in common."""
    return len({each.process for each in observations}) >= _LEAST_BOUND


def around_centre(observations: Sequence[RunDifference]) -> list[RunDifference]:
    """Take off what all have in common, where that can be seen."""
    if not has_centre(observations):
        return list(observations)
    middle = centre(observations)
    share = 1 - 1 / len(observations)
    return [
        RunDifference(each.value - middle, each.error, each.process, each.weight * share)
        for each in observations
    ]


def centre(observations: Sequence[RunDifference]) -> float:
    """Give the median of processes' medians; 0 of nothing."""
    by_process = _by_process(observations).values()
    medians = [statistics.median(each.value for each in group) for group in by_process]
    return statistics.median(medians) if medians else 0.0


def common_part(references: Sequence[RunDifference], jobs: Sequence[RunDifference]) -> float:
    """Say how far the machine moved all times: what references show, where they agree or jobs moved with them.

    References of three definitions that agree show it alone (a t test). Else it is no more than the jobs moved in the
    same direction: that a change of the code undid exactly what the machine did is the least likely of all.
    """
    moved, along = centre(references), centre(jobs)
    medians = [
        statistics.median(each.value for each in group)
        for group in _by_process(references).values()
    ]
    if len(medians) >= _LEAST_BOUND:
        error = statistics.stdev(medians) / math.sqrt(len(medians))
        if abs(moved) > student_quantile(CONFIDENCE, len(medians) - 1) * error:
            return moved
    if not jobs or moved * along <= 0:
        return 0.0
    return math.copysign(min(abs(moved), abs(along)), moved)


def logarithm(uncertain: Uncertain) -> tuple[float, float] | None:
    """Give a value's logarithm and its standard error, as its interval says; None without one."""
    value, interval = uncertain
    if interval is None or interval[0] <= 0 or not value > 0:
        return None
    error = math.log(interval[1] / interval[0]) / (2 * _NORMAL)
    return math.log(value), max(_LEAST_ERROR, error)


def _square(each: RunDifference, variance: float) -> float:
    return each.value**2 / (each.error**2 + variance)


def _by_process(observations: Sequence[RunDifference]) -> dict[str, list[RunDifference]]:
    groups: defaultdict[str, list[RunDifference]] = defaultdict(list)
    for each in observations:
        groups[each.process].append(each)
    return groups


def _independent(observations: Sequence[RunDifference]) -> float:
    """Count observations; those of a process that moved alike count once (the design effect; Kish 1965)."""
    total = math.fsum(each.weight for each in observations)
    scaled_values = [
        [each.value / each.error for each in group] for group in _by_process(observations).values()
    ]
    pairs = sum(len(group) * (len(group) - 1) for group in scaled_values)
    squares = math.fsum(value * value for group in scaled_values for value in group)
    if not pairs or not squares:
        return total
    products = math.fsum(
        math.fsum(group) ** 2 - math.fsum(value * value for value in group)
        for group in scaled_values
    )
    alike = min(1.0, max(0.0, products / pairs / (squares / len(observations))))
    size = (pairs + len(observations)) / len(observations)
    return total / (1 + (size - 1) * alike)


@dataclass(frozen=True, slots=True)
class Part:
    """One of several ratios that are averaged."""

    ratio: float
    interval: Interval | None
    shared: float = 0.0
    """Part of the interval's reach that others of its group have in common with it."""
    group: str = ""
    common: float = 0.0
    """Part of it that all have in common."""


def mean_of_parts(parts: Sequence[Part]) -> tuple[float | None, Interval | None]:
    """Average ratios geometrically; the interval is None unless each has one.

    On the logarithmic scale noise within runs adds in squares; what runs differ by adds up within a group, for
    its jobs were timed by the same processes, beside the same reference; what the machine did adds up over all.
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


def _reach(parts: Sequence[Part], end: int) -> float:
    """Add up on one side of the mean."""
    squares: list[float] = []
    shared: defaultdict[str, float] = defaultdict(float)
    common = 0.0
    for part in parts:
        distance = abs(math.log((part.interval or (1.0, 1.0))[end] / part.ratio))
        squares.append(distance**2 * max(0.0, 1 - part.shared**2 - part.common**2))
        shared[part.group] += distance * part.shared
        common += distance * part.common
    return math.hypot(math.sqrt(math.fsum(squares)), *shared.values(), common) / len(parts)


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
