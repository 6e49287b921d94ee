"""Is one thing faster than another? Ratios with intervals in, a verdict out."""

from __future__ import annotations

import enum
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashinfer_bench.errors import UsageError
from flashinfer_bench.stats.intervals import median_interval, median_ratio, series_interval
from flashinfer_bench.stats.means import geometric_mean, mean_interval

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.stats.intervals import Interval

THRESHOLD = 0.02
"""Differences up to this share are no difference worth a word."""


class Verdict(enum.StrEnum):
    """What a ratio's interval allows to be said."""

    FASTER = "FASTER"
    SLOWER = "SLOWER"
    SAME = "SAME"
    UNDECIDED = "UNDECIDED"


def verdict(interval: Interval | None, *, threshold: float = THRESHOLD) -> Verdict:
    """Say what an interval of a speedup allows.

    Faster: all of it lies above 1 + threshold. Slower: all of it lies below 1 / (1 + threshold), so that
    exchanging the two exchanges the verdicts. Same: all of it lies between the two. Everything else, no
    interval included, is undecided.

    >>> str(verdict((1.03, 1.08))), str(verdict((0.99, 1.01))), str(verdict((0.97, 1.04)))
    ('FASTER', 'SAME', 'UNDECIDED')
    """
    if interval is None:
        return Verdict.UNDECIDED
    low, high = interval
    above, below = 1 + threshold, 1 / (1 + threshold)
    if low > above:
        return Verdict.FASTER
    if high < below:
        return Verdict.SLOWER
    return Verdict.SAME if below <= low and high <= above else Verdict.UNDECIDED


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times faster the new one is than the old one."""

    value: float | None
    interval: Interval | None
    """95%."""
    verdict: Verdict


def ratio_of(rounds: Sequence[Sequence[float]], *, threshold: float = THRESHOLD) -> Ratio:
    """Sum up block ratios, round by round; every round had processes of its own.

    With six rounds or more, each round's median is one observation, and value and interval are over those:
    what differs from one pair of processes to the next is alike in all blocks of a pair. With fewer they are over all
    blocks, and the interval knows nothing of what differs from one process to the next.
    """
    medians = [median_ratio(ratios) for ratios in rounds if ratios]
    interval = median_interval(medians)
    if interval is None:
        medians = list(itertools.chain.from_iterable(rounds))
        interval = series_interval(medians)
    value = median_ratio(medians) if medians else None
    return Ratio(value, interval, verdict(interval, threshold=threshold))


def overall(ratios: Sequence[Ratio], *, threshold: float = THRESHOLD) -> Ratio:
    """Take the geometric mean over workloads; undecided unless every ratio has an interval."""
    values = [ratio.value for ratio in ratios if ratio.value is not None]
    interval = mean_interval([(each.value or 0.0, each.interval) for each in ratios])
    return Ratio(geometric_mean(values), interval, verdict(interval, threshold=threshold))


def require_threshold(threshold: float) -> float:
    """Refuse a threshold that is no share of one."""
    if not 0 <= threshold < 1:
        raise UsageError(
            f"a threshold lies between 0 and 1, such as 0.02 for 2%; not {threshold:g}"
        )
    return threshold
