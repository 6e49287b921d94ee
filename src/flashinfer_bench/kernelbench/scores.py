"""KernelBench's two figures: how many are right and fast, and how often one of k tries is right."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

THRESHOLDS = (0.0, 0.5, 0.8, 1.0, 1.5, 2.0)
"""The p of fast_p: right, and more than p times as fast as the baseline."""

_TRIES = (1, 5, 10, 20, 50, 100)


def fast_p(speedups: Mapping[str, Sequence[float | None]], threshold: float) -> float:
    """Give the share of samples that are right and *more than* `threshold` times as fast, averaged over problems.

    `speedups` holds, for each problem, one entry a sample: None for one that is wrong.

    >>> fast_p({"a": [2.0, None], "b": [1.0]}, 1.0)
    0.25
    """
    if not speedups:
        return math.nan
    shares = [
        sum(speedup is not None and speedup > threshold for speedup in samples) / len(samples)
        for samples in speedups.values()
    ]
    return sum(shares) / len(shares)


def pass_at_k(are_right: Mapping[str, Sequence[bool]], k: int) -> float:
    """Estimate how often one of k samples is right, averaged over problems (Chen et al. 2021, eq. 1).

    >>> pass_at_k({"a": [True, False, False]}, 2)
    0.6666666666666667
    """
    estimates = [1 - _all_wrong(len(each), sum(each), k) for each in are_right.values()]
    return sum(estimates) / len(estimates) if estimates else math.nan


def tries(are_right: Mapping[str, Sequence[bool]]) -> tuple[int, ...]:
    """Choose the k for which every problem has samples enough."""
    fewest = min((len(each) for each in are_right.values()), default=0)
    return tuple(sorted({k for k in (*_TRIES, fewest) if 1 <= k <= fewest}))


def _all_wrong(count: int, right: int, k: int) -> float:
    """How likely k samples drawn without putting back are all wrong."""
    return math.comb(count - right, k) / math.comb(count, k)
