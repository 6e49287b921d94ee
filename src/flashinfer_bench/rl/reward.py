"""The reward: one number from -1 to 1, of measured evidence alone.

::

    reward = -1                                            where a violation was found
    reward = 0.1 · built + 0.4 · right_share + 0.5 · gain  else; gain is 0 unless every workload is right

`gain` is the mean over workloads of 1 / (1 + (T - L) / (B - L)): B the reference's time, T = B / (lower end of the
speedup's 95% interval), L the least time that the roofline allows. It is 0.5 for a kernel as fast as the reference
and 1 at the roofline, which nothing goes beyond. That is SOL-ExecBench's score (`report score`) of a cautious time.
"""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

BUILDS = 0.1
IS_RIGHT = 0.4
IS_FAST = 0.5
VIOLATION = -1.0


def gain(
    speedup_lower: float, latency: float, reference: float, sol_fraction: float | None
) -> float:
    """Say how far one workload is on the way from nothing to the roofline; times in one unit.

    Without a share of the roofline the least time is 0. A reference that is at the roofline already leaves nothing to
    gain: then 1 for who is as fast as it, within the interval, and less for who is slower.

    >>> gain(1.0, latency=2.0, reference=2.0, sol_fraction=0.5)
    0.5
    >>> gain(2.0, latency=1.0, reference=2.0, sol_fraction=1.0)
    1.0
    >>> gain(9.0, latency=1.0, reference=2.0, sol_fraction=1.0)
    1.0
    >>> gain(0.0, latency=1.0, reference=2.0, sol_fraction=None)
    0.0
    """
    if speedup_lower <= 0:
        return 0.0
    least = min(sol_fraction or 0.0, 1.0) * latency
    cautious = max(reference / speedup_lower, least)
    if reference <= least:
        return min(1.0, speedup_lower)
    return (reference - least) / ((reference - least) + (cautious - least))


def reward(
    *,
    built: bool,
    right_share: float,
    gains: Sequence[float | None],
    is_violating: bool = False,
) -> float:
    """Make one number; a gain of None is a workload that passed and was not timed: it earns nothing for speed.

    >>> reward(built=False, right_share=0.0, gains=[])
    0.0
    >>> round(reward(built=True, right_share=0.5, gains=[0.9]), 3)
    0.3
    >>> reward(built=True, right_share=1.0, gains=[0.5, 0.5])
    0.75
    >>> reward(built=True, right_share=1.0, gains=[0.5], is_violating=True)
    -1.0
    """
    if is_violating:
        return VIOLATION
    speed = fmean(each or 0.0 for each in gains) if gains and right_share == 1.0 else 0.0
    return BUILDS * built + IS_RIGHT * right_share + IS_FAST * speed
