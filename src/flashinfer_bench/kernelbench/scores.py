"""KernelBench's two figures: how many are right and fast, and how often one of k tries is right."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashinfer_bench.report.scores import measures
from flashinfer_bench.report.scores.measures import KERNELBENCH, pass_at_k

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["THRESHOLDS", "fast_p", "pass_at_k", "tries"]

THRESHOLDS = KERNELBENCH.thresholds
"""The p of fast_p: right, and more than p times as fast as the baseline."""

_TRIES = (1, 5, 10, 20, 50, 100)


def fast_p(speedups: Mapping[str, Sequence[float | None]], threshold: float) -> float:
    """Give the share of samples that are right and *more than* `threshold` times as fast, averaged over problems.

    `speedups` holds, for each problem, one entry a sample: None for one that is wrong.

    >>> fast_p({"a": [2.0, None], "b": [1.0]}, 1.0)
    0.25
    """
    return measures.fast_p(speedups, threshold, KERNELBENCH.beyond)


def tries(are_right: Mapping[str, Sequence[bool]]) -> tuple[int, ...]:
    """Choose the k for which every problem has samples enough."""
    fewest = min((len(each) for each in are_right.values()), default=0)
    return tuple(sorted({k for k in (*_TRIES, fewest) if 1 <= k <= fewest}))
