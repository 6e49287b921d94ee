"""Is one thing faster than another? Ratios with intervals in, a verdict out; plain numbers only."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashinfer_bench.bench.timing.statistics import (
    Interval,
    median_interval,
    median_ratio,
    series_interval,
)
from flashinfer_bench.errors import UsageError
from flashinfer_bench.report.numbers import geometric_mean, mean_interval
from flashinfer_bench.report.verdicts import THRESHOLD, Verdict, verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "THRESHOLD",
    "Ratio",
    "Verdict",
    "overall",
    "ratio_of",
    "require_threshold",
    "verdict",
]


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
    blocks of one pair of processes are alike in what luck that pair had. With fewer they are over all
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
