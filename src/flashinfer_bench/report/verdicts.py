"""What the interval of a ratio allows to be said."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flashinfer_bench.report.numbers import Interval

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
