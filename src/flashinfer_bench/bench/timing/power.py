"""From readings of an energy counter to power, and to the energy of a call. Plain numbers in and out."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

SEGMENTS = 10
LEAST_SEGMENTS = 6
"""Fewer give no interval."""


class CounterReading(NamedTuple):
    """What a counter said, and when it was seen to say it first."""

    at_s: float
    joules: float


def changes(readings: Sequence[CounterReading]) -> list[CounterReading]:
    """Keep the readings at which the counter had moved: only these say when.

    >>> changes([CounterReading(0.0, 5.0), CounterReading(0.1, 5.0), CounterReading(0.2, 7.0)])
    [CounterReading(at_s=0.2, joules=7.0)]
    """
    pairs = itertools.pairwise(readings)
    return [after for before, after in pairs if after.joules != before.joules]


def mean_power_w(moved: Sequence[CounterReading]) -> float:
    """Give the mean power from the first change to the last.

    >>> mean_power_w([CounterReading(1.0, 10.0), CounterReading(1.5, 60.0), CounterReading(3.0, 210.0)])
    100.0
    """
    first, last = moved[0], moved[-1]
    return (last.joules - first.joules) / (last.at_s - first.at_s)


def segment_powers_w(moved: Sequence[CounterReading], *, segments: int = SEGMENTS) -> list[float]:
    """Give the mean power of one stretch after the other, each as many changes long, in the order of time.

    >>> [round(power) for power in segment_powers_w([CounterReading(t / 4, 25.0 * t) for t in range(5)], segments=2)]
    [100, 100]
    """
    count = min(segments, len(moved) - 1)
    ends = [round(index * (len(moved) - 1) / count) for index in range(count + 1)] if count else []
    return [mean_power_w((moved[one], moved[other])) for one, other in itertools.pairwise(ends)]
