"""Which timed samples are checked? Plain numbers and coins in, decisions out.

Who leaves work out of some samples wins nothing unless the medians of half the blocks fall, and then two things give
it away. One secret sample of each block is checked, whatever it took. And the time that a sample is claimed to take
is known before its outputs are taken over: one that is faster than the secret samples were is checked with a
probability that makes up for how many of them it takes to move a block's median. So only samples that are hardly
faster are left out with impunity, and those hardly move the ratio. `benchmarks/simulate_lotteries.py` plays it.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

FAST = 0.94
"""A sample is fast that takes less than this share of what the secret ones took: 1 / 0.94 is less than 10% more."""

_FAST_CHECKS = 6.0
"""So many samples of a block are checked on average if all of them are fast."""

_SECRET_ONES = 12
"""The median of the last so many secret samples says what is usual: a machine drifts."""

_OF_FAST_ONES = 2
"""So many times as many calls are checked of a fast sample as of a secret one."""

_LEAST_CHECKED_CALLS = 60
"""Where samples have several calls: who leaves out one call in eleven passes so many checks with 0.3%."""


def secret_place(size: int, coin: random.Random) -> int:
    """Choose the sample of a block that is checked whatever it took."""
    return coin.randrange(size)


def fast_check_probability(size: int) -> float:
    """Say how likely a fast sample of a block is to be checked.

    It does not depend on what was checked before in the block, for a candidate may notice that.

    >>> fast_check_probability(12), fast_check_probability(3)
    (0.5, 1.0)
    """
    return min(1.0, _FAST_CHECKS / max(1, size))


def checked_calls(count: int, secret_samples: int, *, is_fast: bool = False) -> int:
    """Say how many calls are checked of a sample of `count` calls, in a job with so many secret samples.

    >>> checked_calls(1, 15), checked_calls(64, 15), checked_calls(64, 15, is_fast=True)
    (1, 4, 8)
    """
    most = math.ceil(_LEAST_CHECKED_CALLS / max(1, secret_samples))
    return min(count, _OF_FAST_ONES * most if is_fast else most)


class UsualTime:
    """What the secret samples of one candidate took: they are right, or the job is lost anyway."""

    def __init__(self) -> None:
        self._secret_ns: deque[float] = deque(maxlen=_SECRET_ONES)
        self._fast_ns = 0.0

    def add(self, per_call_ns: float) -> None:
        """Take in a secret sample."""
        self._secret_ns.append(per_call_ns)
        self._fast_ns = FAST * statistics.median(self._secret_ns)

    def is_fast(self, per_call_ns: float) -> bool:
        """Tell whether a sample took less than secret ones do; before the first one nothing is known."""
        return per_call_ns < self._fast_ns


def miss_probability(sizes: Sequence[int], skipped: Sequence[int]) -> float:
    """Give the probability that nothing is noticed where so many samples of each block are left out and are fast.

    Exact where honest samples all take the same time. In the first block the fast ones before its secret sample
    are not known to be fast, and are left out first.
    """
    missed = 1.0
    for block, (size, count) in enumerate(zip(sizes, skipped, strict=True)):
        slips = 1.0 - fast_check_probability(size)
        known = 0 if block == 0 else count
        missed *= (1.0 - count / size) * slips**known
    return missed
