"""One account of time: what a candidate used beside its claim, against trusted processes that did the same beside it.

A sample is a cycle: its inputs are prepared, it is told to go, its outputs are committed. All of that happens in the
candidate's process, and only the calls in the middle are claimed. The reference goes through the same cycle with as
many calls, inputs and outputs; so does the control, which computes nothing and keeps a processor busy for as long as
the candidate claims. What a candidate takes beyond the one of the two that takes more is work that its claim has to
cover; nothing else is forgiven.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashinfer_bench.bench.timing.observed import (
    CLAIMED,
    RELATIVE_ALLOWANCE,
    claimed_per_call_ns,
    claimed_per_sample_ns,
    is_above_where_fast,
    is_surely_above,
    median_of,
)
from flashinfer_bench.bench.timing.turns import (
    LONGEST_SAMPLE_OF_SEVERAL_NS,
    SHORTEST_SAMPLE_ON_CPU_NS,
)
from flashinfer_bench.stats.intervals import median_interval

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from flashinfer_bench.bench.timing.observed import Observations, Observed

_USUAL_SHARE = 0.9
"""Nine of ten blocks of trusted processes vary by less than what is taken for their spread."""

_FAR_MORE, _STIRRED_NS = 3.0, 500_000.0
"""A block does not count in which a candidate used so many times as much as usual, and so much more."""


@dataclass(frozen=True, slots=True)
class Account:
    """One part of the cycle, block by block, in nanoseconds per sample (or per further call of a batch)."""

    beyond: tuple[float, ...]
    """By how much it took longer than in the trusted process that took most."""
    beyond_least: tuple[float, ...]
    """The same against the one that took least: what could be hidden at most."""
    spread_ns: float
    """What trusted processes themselves differ by from block to block."""
    claims: tuple[float, ...] = ()
    """What the samples of a block are claimed to take."""

    def is_overdrawn(self, claimed_ns: float) -> bool:
        """Tell whether more was surely used than a tenth of the claim and what trusted processes vary by.

        In all blocks, or in those that make the reported figure.
        """
        allowed_ns = RELATIVE_ALLOWANCE * claimed_ns + self.spread_ns
        over = [each - allowed_ns for each in self.beyond]
        return is_surely_above(over) or is_above_where_fast(over, self.claims)

    @property
    def typical_ns(self) -> float:
        """What was used beyond the trusted processes, in the median over blocks."""
        return statistics.median(self.beyond)

    @property
    def most_ns(self) -> float | None:
        """With 95% no more than this was used, whatever the trusted processes needed; None if it cannot be told."""
        interval = median_interval(list(self.beyond_least))
        return None if interval is None else max(0.0, interval[1])


def account(observations: Observations, what: Callable[[Observed], float]) -> Account:
    """Hold one figure of a candidate's samples against the trusted processes' in the same block."""
    beyond, least, usual, claims = [], [], [], []
    peers = observations.peers or [()] * len(observations.blocks)
    undisturbed = _undisturbed(observations)
    for number, (block, *trusted) in enumerate(
        zip(observations.blocks, observations.controls, peers, strict=False)
    ):
        levels = [median_of(each, what) for each in trusted if each]
        if block and levels and (undisturbed is None or number in undisturbed):
            used = median_of(block, what)
            beyond.append(used - max(levels))
            least.append(used - min(levels))
            usual.append(max(levels))
            claims.append(median_of(block, CLAIMED))
    return Account(tuple(beyond), tuple(least), _spread(usual), tuple(claims))


def _undisturbed(observations: Observations) -> set[int] | None:
    """Name the blocks that a candidate did not stir far more than its others; None: all.

    Noise that it makes while trusted processes run in a few blocks is none of what these vary by themselves.
    """
    stirred = observations.stirred
    if len(stirred) < len(observations.blocks):
        return None
    most_ns = _FAR_MORE * statistics.median(stirred or [0.0]) + _STIRRED_NS
    found = {number for number, used_ns in enumerate(stirred) if used_ns <= most_ns}
    return found if 2 * len(found) > len(stirred) else None


def account_per_call(observations: Observations, what: Callable[[Observed], float]) -> Account:
    """Do the same for each further call of a batch, whose size nobody knew before."""
    beyond, usual = [], []
    for own, trusted in zip(observations.batches, observations.control_batches, strict=False):
        level = _slope(trusted, what)
        beyond.append(_slope(own, what) - level)
        usual.append(level)
    return Account(tuple(beyond), tuple(beyond), _spread(usual))


def unaccounted_ns(observations: Observations, *parts: Callable[[Observed], float]) -> float | None:
    """Return the work per call that could lie beside the claim unseen, with 95%; None where it cannot be told."""
    most = [account(observations, part).most_ns for part in parts]
    if not observations.blocks or any(each is None for each in most):
        return None
    per_call = claimed_per_call_ns(observations) / max(1.0, claimed_per_sample_ns(observations))
    return sum(each for each in most if each is not None) * per_call


def telling_sample_ns(looks: Sequence[Observed]) -> float:
    """Say how long a sample must be for a tenth of it to exceed what trusted samples vary by, within bounds.

    >>> from flashinfer_bench.bench.timing.observed import Observed
    >>> telling_sample_ns([Observed(1, 0.0, 5_000.0)] * 10)
    30000.0
    >>> telling_sample_ns([Observed(1, 0.0, 1_000.0 * number) for number in range(100)])
    100000.0
    """
    spread_ns = _spread([each.late_ns for each in looks])
    wanted_ns = max(SHORTEST_SAMPLE_ON_CPU_NS, spread_ns / RELATIVE_ALLOWANCE)
    return float(min(LONGEST_SAMPLE_OF_SEVERAL_NS, round(wanted_ns)))


def _slope(pair: tuple[Observed, Observed], what: Callable[[Observed], float]) -> float:
    low, high = pair
    return (what(high) - what(low)) / max(1, high.count - low.count)


def _spread(values: Sequence[float]) -> float:
    """Return by how much the larger values exceed the median."""
    ranked = sorted(values)
    if not ranked:
        return 0.0
    return ranked[round(_USUAL_SHARE * (len(ranked) - 1))] - statistics.median(ranked)


def spare_cpu_ns(observations: Observations, *, cores: int) -> tuple[float, float]:
    """Return what processor time the trusted process that used more used beside its claim, and what that varies by.

    The reference may have kept every core busy. The control keeps one core busy, and all of them by turns: of
    several cores, the half of its samples that used less kept one.
    """
    control = sorted(
        each.running_cpu_ns - each.claimed_ns for group in observations.controls for each in group
    )
    one_core = control if cores == 1 else control[: (len(control) + 1) // 2]
    reference = [
        each.running_cpu_ns - cores * each.claimed_ns
        for group in observations.peers
        for each in group
    ]
    trusted = [each for each in (one_core, reference) if each]
    if not trusted:
        return 0.0, 0.0
    most = max(trusted, key=statistics.median)
    return max(0.0, statistics.median(most)), _spread(most)
