"""Where a series of runs changes: one rank test a stretch, with a false-alarm rate that is kept."""

from __future__ import annotations

import itertools
import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashinfer_bench.stats.shifts import shift
from flashinfer_bench.stats.verdicts import THRESHOLD, Verdict, verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.stats.intervals import Interval

FALSE_ALARMS = 0.05
"""Share of histories without a change that get a mark, at most."""


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """Where values change."""

    at: int
    """The first one after the change."""
    ratio: float
    """How many times as large the values after it are, up to the next change, as those before, from the last one."""
    interval: Interval | None
    """95%; None where a neighbouring stretch is too short for one."""
    verdict: Verdict


def change_points(
    speeds: Sequence[float],
    *,
    false_alarms: float = FALSE_ALARMS,
    threshold: float = THRESHOLD,
) -> tuple[ChangePoint, ...]:
    """Mark where values, in the order of time, change by more than a threshold.

    The place that parts them best, by least absolute deviations on the logarithmic scale, is a change if Moses'
    interval for the ratio of the two sides lies wholly beyond the threshold, at a confidence of
    1 - `false_alarms` / places (Bonferroni); places are those with runs enough on both sides for that. The
    two stretches are then searched in the same way. If all values are from one distribution, whatever it is,
    and independent, a mark appears in no more than the share `false_alarms`.

    >>> [point.at for point in change_points([1.0, 1.01, 0.99, 1.02, 0.8, 0.81, 0.79, 0.82])]
    [4]
    >>> change_points([1.0, 1.01, 0.99, 1.02, 1.0, 1.01, 0.99, 1.02])
    ()
    """
    cuts = sorted(_cuts(speeds, 0, false_alarms, threshold))
    ends = [0, *cuts, len(speeds)]
    points = []
    for begin, at, end in zip(ends, cuts, ends[2:], strict=False):
        ratio, interval = shift(speeds[begin:at], speeds[at:end])
        found = Verdict.FASTER if ratio > 1 else Verdict.SLOWER
        points.append(ChangePoint(at, ratio, interval, found))
    return tuple(points)


def least_side(count: int, false_alarms: float = FALSE_ALARMS) -> int | None:
    """Say how many of so many runs a change needs on either side to be told; None where none can be.

    >>> least_side(7), least_side(8), least_side(14), least_side(100)
    (None, 4, 3, 2)
    """
    for side in range(2, count // 2 + 1):
        places = count - 2 * side + 1
        if 2 / math.comb(count, side) <= false_alarms / places:
            return side
    return None


def least_runs(false_alarms: float = FALSE_ALARMS) -> int:
    """Say how many runs it takes before any change can be told.

    >>> least_runs(), least_runs(0.05 / 4)
    (8, 10)
    """
    return next(count for count in itertools.count(4) if least_side(count, false_alarms))


def _cuts(speeds: Sequence[float], offset: int, false_alarms: float, threshold: float) -> list[int]:
    side = least_side(len(speeds), false_alarms)
    if side is None:
        return []
    places = range(side, len(speeds) - side + 1)
    at = _best_place(speeds, places)
    confidence = 1 - false_alarms / len(places)
    _, interval = shift(speeds[:at], speeds[at:], confidence=confidence)
    if verdict(interval, threshold=threshold) not in {Verdict.FASTER, Verdict.SLOWER}:
        return []
    return [
        *_cuts(speeds[:at], offset, false_alarms, threshold),
        offset + at,
        *_cuts(speeds[at:], offset + at, false_alarms, threshold),
    ]


def _best_place(speeds: Sequence[float], places: range) -> int:
    """Find the place at which both stretches lie closest to their own medians, on the logarithmic scale."""
    logs = [math.log(each) for each in speeds]
    return min(places, key=lambda at: _distance(logs[:at]) + _distance(logs[at:]))


def _distance(values: Sequence[float]) -> float:
    middle = statistics.median(values)
    return math.fsum(abs(value - middle) for value in values)
