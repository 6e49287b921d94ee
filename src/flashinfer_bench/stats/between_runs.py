"""How much runs of the same code differ beyond what the blocks within them tell: a variance of its own.

The logarithms of a job's times in two runs differ by what its blocks say (a standard error), and by an amount that
belongs to the runs: another process, another minute. That variance is estimated over jobs, as between the studies of a
meta-analysis, and added to the square of each job's own error (docs/adr/0010-runs-differ-by-an-amount-of-their-own.md).
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from flashinfer_bench.stats.intervals import CONFIDENCE
from flashinfer_bench.stats.means import geometric_mean
from flashinfer_bench.stats.student import AS_GOOD_AS_NORMAL, student_quantile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flashinfer_bench.stats.intervals import Interval

    Uncertain = tuple[float, Interval | None]

ASSUMED = 3.5
"""How many times as far apart as their blocks say two runs of one job are taken to lie, before anything tells.

On the machines measured they lay 0.8 to 4.1 times as far apart, mostly two to three times."""
MOST_ASSUMED = 0.13
"""By how much runs are taken to lie apart at most, as a logarithm's deviation, before anything tells.

Blocks that are noisier than that hold what runs differ by: there runs lay 0.8 to 1.6 times as far apart as they say."""
LEAST_ASSUMED = 0.0045
"""By how much runs differ at least: cards of one kind, and the minutes of one card, are not alike to less."""
DEVICE_MS = 5.5e-5
"""By how much two runs differ on a device, however short a kernel: what starting it and telling the time take.

On two H200 the times of kernels of 6 to 170 µs differed by 60 to 120 ns, those of one of 3.4 µs by up to 480."""
DEVICE_REFERENCE_MS = 6e-4
"""By how much references differ, which are several kernels: there 80 ns to 1.4 µs."""
DEVICE_SHARE = 0.0035
"""By how much they differ beside, as a share of the time."""
ASSUMED_WEIGHT = 4
"""For how many observations the assumption stands."""
FREEDOM = 4
"""Degrees of freedom of the Student's t that runs differ by, however well its width is known: its tails are heavy.

Most jobs of a machine differ by little, and one that has two speeds differs by much."""

_NORMAL = round(statistics.NormalDist().inv_cdf((1 + CONFIDENCE) / 2), 6)
"""Standard errors that an interval reaches to either side."""
_LEAST_ERROR = 2e-4
"""A clock that ticks coarsely makes intervals of no width."""
_BEND = 2.0
"""Residuals beyond so many deviations count as that many (Huber 1964)."""
_EXPECTED = 1.172
"""Mean of min(t², 2²) of a Student's t of four degrees of freedom."""
_BISECTIONS = 50
_ENOUGH = 4
"""Observations of jobs themselves, from which on references are not asked."""
_LEAST_BOUND = 3
"""Observations of references that bound what jobs say."""
_MOST_UNLIKE = 2.0
"""How many times as large the variance between runs is taken to be for one kind of kernel, at most."""
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
    scale: float = 1.0
    """How many times the variance between runs is taken to be that of a usual job."""
    assumed: float | None = None
    """The variance that is assumed, where it does not depend on the error."""


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
    scale: float = 1.0
    """How many times the variance between runs is, for its kind, that of all jobs."""
    usual: float = 1.0
    """What is assumed of the usual job, where that does not depend on errors."""
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
        assumed: float | None = None,
    ) -> Widened:
        """Let the 95% interval of a ratio within runs know how runs differ; `share`: 1 of a pair, 1/n of n a side.

        `confidence` is that of what blocks say: it is greater where they chose among intervals.
        """
        parts = [abs(math.log(end / value)) for end in interval]
        between = self._variance(math.fsum(parts) / (2 * _NORMAL), share, assumed)
        normal = student_quantile(confidence, AS_GOOD_AS_NORMAL) / _NORMAL
        student = student_quantile(CONFIDENCE, FREEDOM)
        apart = student * math.sqrt(between)
        down, up = (math.hypot(normal * part, apart) for part in parts)
        down, up = down + max(0.0, -self.moved), up + max(0.0, self.moved)
        widest, moved = max(down, up), abs(self.moved)
        return Widened(
            (value * math.exp(-down), value * math.exp(up)),
            deviation=math.sqrt(between / share),
            freedom=FREEDOM,
            shared=apart / widest if widest else 0.0,
            common=moved / widest if widest else 0.0,
        )

    def _variance(self, error: float, share: float, assumed: float | None) -> float:
        """Weigh what was seen with what is assumed of a job (a scaled inverse chi-squared prior)."""
        scale, usual, is_floor = self.scale, self.usual, assumed is not None
        if assumed is None:
            usual = assumed = self._assumed(error / math.sqrt(share))
        else:
            scale = assumed / usual
        seen = self.repeats + Spread(min(self.jobs.variance, self._bound(usual)), self.jobs.count)
        seen += self._references_beside(seen.count)
        weight = ASSUMED_WEIGHT + seen.count
        mixed = share * (ASSUMED_WEIGHT * assumed + seen.count * scale * seen.variance) / weight
        return max(mixed, share * assumed) if is_floor else mixed

    @staticmethod
    def _assumed(error: float) -> float:
        """Say by what variance runs are taken to differ beyond what their blocks say, before anything tells."""
        most = max(0.0, MOST_ASSUMED**2 - error**2)
        return max(LEAST_ASSUMED**2, min(error**2 * (ASSUMED**2 - 1), most))

    def _references_beside(self, known: float) -> Spread:
        """Let references fill in; what few of them moved by may be what the machine did to all."""
        few = self.references.count < _LEAST_BOUND
        variance = self.references.variance
        return Spread(
            min(variance, MOST_ASSUMED**2) if few else variance,
            min(self.references.count, max(0.0, _ENOUGH - known)),
        )

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

    The variance v that solves: mean of min(r²/(e² + v), 2²) = its mean for a Student's t. That is Paule and Mandel's
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
    low, high = 0.0, max(each.value**2 / each.scale for each in observations) / _EXPECTED
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return Spread(high, count)


def repeats(
    values: Sequence[Uncertain], process: str, assumed: float | None = None
) -> list[RunDifference]:
    """Turn the values of runs of one code into observations of how far two runs lie apart."""
    known = [each for each in map(logarithm, values) if each]
    if len(known) < 2:  # noqa: PLR2004  # one run does not show how runs differ
        return []
    middle = math.fsum(log for log, _ in known) / len(known)
    share = (len(known) - 1) / len(known)
    return [
        RunDifference(
            (log - middle) * math.sqrt(2 / share),
            error * math.sqrt(2),
            f"{process} {run}",
            share,
            assumed=assumed,
        )
        for run, (log, error) in enumerate(known)
    ]


def usual_errors(observations: Sequence[RunDifference]) -> dict[str, float]:
    """Give the middle error of each process's jobs."""
    return {
        process: statistics.median_low(each.error for each in group)
        for process, group in _by_process(observations).items()
    }


def scale_of(error: float, usual: float) -> float:
    """Say how many times the variance between runs is that of others: kernels with noisier blocks differ by more."""
    if not error or not usual:
        return 1.0
    return min(max((error / usual) ** 2, 1 / _MOST_UNLIKE), _MOST_UNLIKE)


def usual_assumed(observations: Sequence[RunDifference]) -> float:
    """Give the middle of what is assumed of jobs; 1 where that depends on their errors."""
    known = [each.assumed for each in observations if each.assumed]
    return statistics.median(known) if known else 1.0


def scaled_by(
    observations: Sequence[RunDifference], errors: Mapping[str, float], usual: float
) -> list[RunDifference]:
    """Let each observation know its scale: of what is assumed, or of its process's errors."""
    middle = usual_assumed(observations)
    return [
        replace(
            each,
            scale=each.assumed / middle
            if each.assumed
            else scale_of(errors.get(each.process, usual), usual),
        )
        for each in observations
    ]


def has_centre(observations: Sequence[RunDifference]) -> bool:
    """Tell whether there are processes enough to see what all have in common."""
    return len({each.process for each in observations}) >= _LEAST_BOUND


def around_centre(observations: Sequence[RunDifference]) -> list[RunDifference]:
    """Take off what all have in common, where that can be seen."""
    if not has_centre(observations):
        return list(observations)
    middle = centre(observations)
    share = 1 - 1 / max(_LEAST_BOUND - 1, _independent(observations))
    return [
        RunDifference(
            (each.value - middle) / math.sqrt(share),
            each.error,
            each.process,
            each.weight * share,
            each.scale,
            each.assumed,
        )
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


def assumed_on_device(latency_ms: float, reference_ms: float | None = None) -> float:
    """Give the variance that two runs of a time, or of its ratio to a reference's, are taken to have on a device.

    >>> round(math.sqrt(assumed_on_device(0.006)), 4), round(math.sqrt(assumed_on_device(0.2)), 4)
    (0.0098, 0.0035)
    """
    off = [DEVICE_SHARE, DEVICE_MS / latency_ms]
    beside = [DEVICE_SHARE, DEVICE_REFERENCE_MS / reference_ms] if reference_ms else []
    return math.fsum(each**2 for each in (*off, *beside))


def logarithm(uncertain: Uncertain) -> tuple[float, float] | None:
    """Give a value's logarithm and its standard error, as its interval says; None without one."""
    value, interval = uncertain
    if interval is None or interval[0] <= 0 or not value > 0:
        return None
    error = math.log(interval[1] / interval[0]) / (2 * _NORMAL)
    return math.log(value), max(_LEAST_ERROR, error)


def _square(each: RunDifference, variance: float) -> float:
    return each.value**2 / (each.error**2 + each.scale * variance)


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
