"""What the judge sees of a candidate from outside, sample by sample, and beside a control.

The judge clocks each sample from outside and reads the processor time the candidate's process used meanwhile. A
trusted process that spins for as long as the candidate claims, the *control*, shows what waking up, preparing and
committing cost on this machine at this moment.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING

from flashinfer_bench.stats.intervals import median_interval

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

RELATIVE_ALLOWANCE = 0.10
"""A claim may be short of what was seen by a tenth, beyond what trusted processes show."""
ALLOWANCE_ON_A_CARD_NS = 1_000.0
"""And on a card by so much a call: what launches vary by."""
REPLAY_ALLOWANCE_NS = 6_000.0
"""By so much a replay of a graph that CUPTI records: the host keeps it 3 to 5 µs beside its own time (an H200)."""

_FEWEST_BLOCKS = 6
_FEWEST_FAST_BLOCKS = 5  # all of them lie above their median by chance with 3%


@dataclass(frozen=True, slots=True)
class Observed:
    """One sample as seen from outside, in nanoseconds."""

    count: int
    claimed_ns: float
    outside_ns: float
    """From the order to go until the answer that the calls returned."""
    preparing_ns: float = 0.0
    """From the order to prepare until the answer that inputs are ready."""
    committing_ns: float = 0.0
    """From the answer that the calls returned until the one that outputs are committed."""
    preparing_cpu_ns: float = 0.0
    """Processor time used while inputs were prepared."""
    pause_cpu_ns: float | None = None
    """Processor time used while it was made to wait between `prepared` and `go`; None where it was not."""
    running_cpu_ns: float = 0.0
    """Processor time used from the order to go until the outputs were committed."""
    is_hidden: bool = True
    """On a card: whether its launches were hidden, as it says. Those of calls that wait for the card are not."""

    @property
    def excess_ns(self) -> float:
        """What the judge's clock shows beyond the claim."""
        return self.outside_ns - self.claimed_ns

    @property
    def beside_ns(self) -> float:
        """What the whole cycle took beside the claim: processor time of preparing, and what came late."""
        return self.preparing_cpu_ns + self.late_ns

    @property
    def late_ns(self) -> float:
        """What the judge's clock shows beyond the claim, until the outputs are committed."""
        return self.excess_ns + self.committing_ns


@dataclass(slots=True)
class Observations:
    """What was observed of one candidate in one job, and of the control beside it."""

    blocks: list[tuple[Observed, ...]] = field(default_factory=list)
    controls: list[tuple[Observed, ...]] = field(default_factory=list)
    """The control's samples, which only keep a processor busy: one group per block of `blocks`."""
    peers: list[tuple[Observed, ...]] = field(default_factory=list)
    """Samples of the reference, which computes: one group per block of `blocks`."""
    batches: list[tuple[Observed, Observed]] = field(default_factory=list)
    """Pairs of a small and a large batch of back-to-back calls."""
    control_batches: list[tuple[Observed, Observed]] = field(default_factory=list)
    """The same of the reference's process: pairs of as many calls."""
    idle: list[tuple[float, float]] = field(default_factory=list)
    """Blocks of the others: how long they took, and what processor time this one used meanwhile."""
    born: list[tuple[float, float]] = field(default_factory=list)
    """Blocks: what was claimed in all, and the processor time of children born in it that were there at its end."""
    unmet: list[tuple[float, float]] = field(default_factory=list)
    """Blocks: what was claimed in all, and the processor time of children that were not there at its start, ended ones
    too; empty where the kernel does not count it."""
    silences: list[tuple[float, float]] = field(default_factory=list)
    """Times in which nobody was asked for anything, on a noisy machine: as `idle`."""
    hides_launches: bool = False
    """Whether batches are no longer than launches can be hidden, as those of samples are."""
    allowance_ns: float = ALLOWANCE_ON_A_CARD_NS
    """On a card: by how much a claim may be short for each call."""
    is_cold: bool = False
    """Whether each process empties caches before a sample, which takes it many times as long as the sample."""
    stirred: list[float] = field(default_factory=list)
    """Processor time that the candidate used while each group of `peers` was taken; empty where nobody looked."""


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A rule that what was observed does not fit."""

    code: str
    evidence: str


EXCESS, CLAIMED, LATE = attrgetter("excess_ns"), attrgetter("claimed_ns"), attrgetter("late_ns")
BESIDE = attrgetter("beside_ns")
PREPARING, COMMITTING = attrgetter("preparing_ns"), attrgetter("committing_ns")
PREPARING_CPU, RUNNING_CPU = attrgetter("preparing_cpu_ns"), attrgetter("running_cpu_ns")


def claimed_per_call_ns(observations: Observations) -> float:
    """Take what the timed samples claim for a call: only that is reported."""
    return statistics.median(
        each.claimed_ns / each.count for block in observations.blocks for each in block
    )


def claimed_per_sample_ns(observations: Observations) -> float:
    """Take what the timed samples claim for themselves, whatever calls they have."""
    return statistics.median(each.claimed_ns for block in observations.blocks for each in block)


def with_controls(
    observations: Observations,
) -> Iterator[tuple[tuple[Observed, ...], tuple[Observed, ...]]]:
    """Give each block with the control's samples beside it, where there are both."""
    pairs = zip(observations.blocks, observations.controls, strict=False)
    return ((block, control) for block, control in pairs if block and control)


def beyond_controls(
    observations: Observations, what: Callable[[Observed], float]
) -> list[tuple[float, float]]:
    """Give, block by block, by how much something took longer than in the control, and how long it took there."""
    found = []
    for block, control in with_controls(observations):
        usual = median_of(control, what)
        found.append((median_of(block, what) - usual, usual))
    return found


def typical(surplus: Sequence[tuple[float, float]]) -> float:
    """Give the median over blocks of what `beyond_controls` found."""
    return statistics.median(each for each, _ in surplus)


def median_of(block: Sequence[Observed], what: Callable[[Observed], float]) -> float:
    """Give the median of one figure over a block."""
    return statistics.median(what(each) for each in block)


def unsteadiness_ns(controls: Sequence[Sequence[Observed]]) -> float:
    """Give the spread of what waking up cost the control: the machine's doing, not the candidate's."""
    most = sorted(max(map(EXCESS, control)) for control in controls if control)
    return most[round(0.9 * (len(most) - 1))] - most[len(most) // 2] if most else 0.0


def is_above(values: Sequence[float], limit: float) -> bool:
    """Tell whether half of the blocks or more lie above the limit; a few blocks say nothing.

    This is not to be sure. Who is suspected is played again, and again; who is believed is recorded at once.
    """
    return len(values) >= _FEWEST_BLOCKS and statistics.median(values) > limit


def is_surely_above(values: Iterable[float]) -> bool:
    """Tell whether the median of many blocks is above zero with 95%; a few blocks say nothing."""
    interval = median_interval(list(values))
    return interval is not None and interval[0] > 0


def is_above_where_fast(values: Sequence[float], claims: Sequence[float]) -> bool:
    """Tell whether all blocks of the half that claims least lie above zero, and the others that do not claim more.

    Medians over blocks are reported. Who hides work in just over half of the blocks moves them, and the interval of all
    blocks reaches down to the honest ones: these must be slower by a tenth, or nothing was gained.

    >>> is_above_where_fast([1] * 6 + [-1] * 4, [10.0] * 6 + [30.0] * 4)
    True
    >>> is_above_where_fast([1] * 6 + [-1] * 4, [10.0] * 10), is_above_where_fast([1, -1], [10.0, 30.0])
    (False, False)
    """
    ranked = sorted(zip(claims, values, strict=False))
    fast = ranked[: len(ranked) // 2]
    within = [claimed for claimed, value in ranked if value <= 0]
    if len(fast) < _FEWEST_FAST_BLOCKS or not within or any(value <= 0 for _, value in fast):
        return False
    usual = statistics.median(claimed for claimed, _ in fast)
    return statistics.median(within) > (1 + RELATIVE_ALLOWANCE) * usual


def us(nanoseconds: float) -> str:
    """Write a time for evidence, in microseconds."""
    return f"{nanoseconds / 1e3:.3g} µs"
