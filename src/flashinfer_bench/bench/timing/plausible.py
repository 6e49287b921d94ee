"""Does what a contestant claims agree with what can be seen of it from outside? Plain numbers in and out.

Each sample is *observed*: the judge clocks it from outside and reads the processor time the contestant's process
used meanwhile. A trusted process that spins for as long as the contestant claims, the *control*, shows what
waking up, preparing and committing cost on this machine at this moment.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from flashinfer_bench.bench.timing.statistics import median_interval

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

RELATIVE_ALLOWANCE = 0.10
ALLOWANCE_NS = 1_000.0
"""A claim may be short of the judge's own clock by a tenth and a microsecond per call."""

_WAKE_UP_NS = 15_000.0
"""What waking up may cost more, per sample, than it cost the control."""
_QUIET_NS = 20_000.0
"""Processor time that an idle process may use: it goes to sleep, a timer fires."""
_PREPARING_SHARE, _COMMIT_SHARE = 0.3, 0.3
_PREPARING_NS = 25_000.0
_HIDDEN_SHARE = 0.1
"""Preparing and committing may take so much more than in the control: a share of that, so long, and a share of the
claim. The caches that a kernel leaves behind are not the control's."""
_JITTER_ON_A_CARD_NS = 150_000.0
"""What the medians of honest contestants and of controls differ by on a card (an H200, idle and loaded)."""
_STRIDED_NS_PER_ELEMENT = 10.0
"""Copying an element that its neighbours do not lie beside: a cache miss, several times over."""
_BACKGROUND_SHARE, _BACKGROUND_NS = 0.1, 1_000_000.0
"""Of a core, while others are timed: timers and threads that go to sleep."""
_LEVER_NS = 80_000.0
"""What is allowed over a whole batch is to be so much: more than most wake-ups vary by."""
_MOST_PAIRS = 40
_NEARLY = 0.5
"""Slopes from this share of what is allowed on are looked at until they say clearly."""
_FEWEST_BLOCKS = 6


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

    @property
    def excess_ns(self) -> float:
        """What the judge's clock shows beyond the claim."""
        return self.outside_ns - self.claimed_ns


@dataclass(slots=True)
class Observations:
    """What was observed of one contestant in one job, and of the control beside it."""

    blocks: list[tuple[Observed, ...]] = field(default_factory=list)
    controls: list[tuple[Observed, ...]] = field(default_factory=list)
    """The control's samples, one group per block of `blocks`."""
    batches: list[tuple[Observed, Observed]] = field(default_factory=list)
    """Pairs of a small and a large batch of back-to-back calls."""
    idle: list[tuple[float, float]] = field(default_factory=list)
    """Blocks of the others: how long they took, and what processor time this one used meanwhile."""
    silences: list[tuple[float, float]] = field(default_factory=list)
    """Times in which nobody was asked for anything, on a noisy machine: as `idle`."""


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A rule that what was observed does not fit."""

    code: str
    evidence: str


def largest_batch(seen: Observations, *, most: int) -> int:
    """Say how many calls a batch needs for its slope to be seen through the noise of waking up.

    >>> def samples(claimed_ns):
    ...     return Observations(blocks=[(Observed(1, claimed_ns, claimed_ns),)])
    >>> [largest_batch(samples(claimed_ns), most=64) for claimed_ns in (10_000.0, 5e6, 100.0)]
    [41, 2, 64]
    """
    per_call_ns = RELATIVE_ALLOWANCE * claimed_per_call_ns(seen) + ALLOWANCE_NS
    lever_ns = max(_LEVER_NS, 2 * _unsteadiness(seen.controls))
    return min(most, max(2, 1 + round(lever_ns / per_call_ns)))


def suspicions(
    seen: Observations, *, cores: int, strided_elements: int = 0, on_cpu: bool = True
) -> Iterator[Suspicion]:
    """Yield what speaks against a contestant, where it holds for the median of at least six blocks.

    `cores`: how many processors it may use at a time. `strided_elements`: elements of outputs that are not
    contiguous, per call; they take longer to commit. `on_cpu`: whether the work is done by the processor.
    """
    yield from _slope(seen, on_cpu=on_cpu)
    yield from _clock(seen)
    yield from _idle(seen)
    if on_cpu:
        yield from _early(seen)
        yield from _hidden(seen, cores, strided_elements)
    else:
        yield from _early_on_a_card(seen)
        yield from _late_on_a_card(seen, strided_elements)


def _slope(seen: Observations, *, on_cpu: bool) -> Iterator[Suspicion]:
    """Compare the judge's time per additional call with the claimed one."""
    slopes, allowed_ns = _slopes(seen, on_cpu=on_cpu)
    if not slopes:
        return
    if _is_steep(slopes, allowed_ns):
        claimed_ns = claimed_per_call_ns(seen)
        missing_ns = statistics.median(slopes)
        yield Suspicion(
            "implausible",
            f"a call takes {_us(claimed_ns + missing_ns)} by the judge's clock, and is claimed to take "
            f"{_us(claimed_ns)} (slope over {len(slopes)} pairs of batches of up to "
            f"{max(high.count for _, high in seen.batches)} calls)",
        )


def _is_steep(slopes: Sequence[float], allowed_ns: float) -> bool:
    """Tell whether slopes lie above what is allowed: surely, or after all pairs by as much again."""
    interval = median_interval(slopes)
    is_sure = interval is not None and interval[0] > allowed_ns
    is_far = len(slopes) >= _MOST_PAIRS and statistics.median(slopes) > 2 * allowed_ns
    return is_sure or is_far


def is_noisy(seen: Observations) -> bool:
    """Tell whether waking up varies by more than batches of the usual length can tell from a lie."""
    return _unsteadiness(seen.controls) > _LEVER_NS


def needs_more_batches(seen: Observations, *, on_cpu: bool = True) -> bool:
    """Tell whether batches speak against a claim, or nearly so, and not clearly."""
    slopes, allowed_ns = _slopes(seen, on_cpu=on_cpu)
    if not 0 < len(slopes) < _MOST_PAIRS or statistics.median(slopes) < _NEARLY * allowed_ns:
        return False
    interval = median_interval(slopes)
    return interval is None or interval[0] <= allowed_ns <= interval[1]


def _slopes(seen: Observations, *, on_cpu: bool) -> tuple[list[float], float]:
    """Give what each call takes beyond the claim, a figure for each pair of batches, and what is allowed.

    What waking up varies by is shared by the calls that a pair differs by, and is not held against them. On a
    card it is left to the median: waking up varies there by as much as few large calls take, and no processor
    time tells what such an allowance would forgive.
    """
    if not seen.blocks:
        return [], 0.0
    allowed_ns = RELATIVE_ALLOWANCE * claimed_per_call_ns(seen) + ALLOWANCE_NS
    unsteady_ns = _unsteadiness(seen.controls) if on_cpu else 0.0
    return [
        (high.excess_ns - low.excess_ns - unsteady_ns) / (high.count - low.count)
        for low, high in seen.batches
        if high.count > low.count
    ], allowed_ns


def _clock(seen: Observations) -> Iterator[Suspicion]:
    """Compare samples with the control's, which spun as long as they claim to have taken.

    The least of a block counts: waiting for a busy machine only ever adds, and a lie is there each time. The
    control keeps one core busy and all of them by turns, so what they differ by counts as unsteadiness.
    """
    surplus, over = [], []
    unsteady_ns = _unsteadiness(seen.controls)
    for block, control in _with_controls(seen):
        surplus.append(min(map(_excess, block)) - max(map(_excess, control)))
        count = statistics.median(each.count for each in block)
        claimed_ns = _median(block, _claimed)
        allowed_ns = RELATIVE_ALLOWANCE * claimed_ns + count * ALLOWANCE_NS
        over.append(surplus[-1] - allowed_ns - _WAKE_UP_NS - unsteady_ns)
    interval = median_interval(over)  # noise alone can do this: be sure
    if interval is not None and interval[0] > 0:
        yield Suspicion(
            "implausible",
            f"a sample claimed to take {_us(_claimed_per_sample(seen))} took {_us(statistics.median(surplus))} "
            "longer by the judge's clock than a spin of that length",
        )


def _unsteadiness(controls: Sequence[Sequence[Observed]]) -> float:
    """Give the spread of what waking up cost the control: the machine's doing, not the contestant's."""
    most = sorted(max(map(_excess, control)) for control in controls if control)
    return most[round(0.9 * (len(most) - 1))] - most[len(most) // 2] if most else 0.0


def _early(seen: Observations) -> Iterator[Suspicion]:
    """Look for work before `go`: while it had to wait, and while inputs were prepared."""
    paused = _while_paused(seen)
    if paused is not None:
        yield paused
        return
    claimed_ns = _claimed_per_sample(seen) if seen.blocks else 0.0
    surplus = _beyond_controls(seen, _preparing_cpu)
    allowed_ns = _PREPARING_NS + _HIDDEN_SHARE * claimed_ns
    over = [each - _PREPARING_SHARE * usual - allowed_ns for each, usual in surplus]
    if _is_above(over, 0.0):
        yield _prepared_early(surplus, claimed_ns)


def _early_on_a_card(seen: Observations) -> Iterator[Suspicion]:
    """Look for work before `go` there: work on the card takes time, and next to no processor time."""
    paused = _while_paused(seen)
    if paused is not None:
        yield paused
        return
    claimed_ns = _claimed_per_sample(seen) if seen.blocks else 0.0
    surplus = _beyond_controls(seen, _preparing)
    allowed_ns = _JITTER_ON_A_CARD_NS + _HIDDEN_SHARE * claimed_ns
    if _is_surely_above(each - _PREPARING_SHARE * usual - allowed_ns for each, usual in surplus):
        yield _prepared_early(surplus, claimed_ns)


def _prepared_early(surplus: Sequence[tuple[float, float]], claimed_ns: float) -> Suspicion:
    return Suspicion(
        "early_compute",
        f"preparing the inputs of a sample took {_us(_typical(surplus))} longer than in the "
        f"control, and the sample is claimed to take {_us(claimed_ns)}",
    )


def _while_paused(seen: Observations) -> Suspicion | None:
    """See what processor time was used while there was nothing to do."""
    waiting = []
    for block, control in _with_controls(seen):
        paused = [each.pause_cpu_ns for each in block if each.pause_cpu_ns is not None]
        usual = [each.pause_cpu_ns for each in control if each.pause_cpu_ns is not None]
        if paused and usual:
            waiting.append(statistics.median(paused) - max(usual))
    if not _is_above(waiting, _QUIET_NS):
        return None
    return Suspicion(
        "early_compute",
        f"it used {_us(statistics.median(waiting))} of processor time between `prepared` and `go`, "
        "when it had nothing to do",
    )


def _late_on_a_card(seen: Observations, strided_elements: int) -> Iterator[Suspicion]:
    """Look for work after the clock stopped: all of it, until outputs are committed, against the control's.

    When exactly the answer that calls returned was heard says little: the one that outputs are committed is
    already there when the judge was slow to wake up.
    """
    claimed_ns = _claimed_per_sample(seen) if seen.blocks else 0.0
    count = seen.blocks[0][0].count if seen.blocks and seen.blocks[0] else 1
    surplus = _beyond_controls(seen, _after_the_claim)
    usual_ns = (
        statistics.median(_median(each, _committing) for each in seen.controls if each)
        if surplus
        else 0.0
    )
    allowed_ns = (
        _JITTER_ON_A_CARD_NS
        + RELATIVE_ALLOWANCE * claimed_ns
        + count * (ALLOWANCE_NS + strided_elements * _STRIDED_NS_PER_ELEMENT)
        + _COMMIT_SHARE * usual_ns
    )
    if _is_surely_above(each - allowed_ns for each, _ in surplus):
        yield Suspicion(
            "hidden_work",
            f"from the order to go until outputs were committed a sample took {_us(_typical(surplus))} longer "
            f"than the control, beyond the {_us(claimed_ns)} it is claimed to take",
        )


def _beyond_controls(
    seen: Observations, what: Callable[[Observed], float]
) -> list[tuple[float, float]]:
    """Give, block by block, by how much something took longer than in the control, and how long it took there."""
    found = []
    for block, control in _with_controls(seen):
        usual = _median(control, what)
        found.append((_median(block, what) - usual, usual))
    return found


def _typical(surplus: Sequence[tuple[float, float]]) -> float:
    return statistics.median(each for each, _ in surplus)


def _hidden(seen: Observations, cores: int, strided_elements: int) -> Iterator[Suspicion]:
    """Compare the processor time of a sample with what its claim leaves room for."""
    over = []
    # The quarter that used least kept one core busy: beyond that it only committed.
    spare = sorted(
        each.running_cpu_ns - each.claimed_ns for group in seen.controls for each in group
    )
    commit_ns = spare[len(spare) // 4] if spare else 0.0
    for block, _ in _with_controls(seen):
        count = statistics.median(each.count for each in block)
        allowed_ns = (
            cores * (1 + RELATIVE_ALLOWANCE) * (_median(block, _claimed) + count * ALLOWANCE_NS)
            + (1 + _COMMIT_SHARE) * max(0.0, commit_ns)
            + count * strided_elements * _STRIDED_NS_PER_ELEMENT
            + _PREPARING_NS
        )
        over.append(_median(block, _running) - allowed_ns)
    if _is_above(over, 0.0):
        used_ns = statistics.median(_median(block, _running) for block in seen.blocks)
        yield Suspicion(
            "hidden_work",
            f"a sample claimed to take {_us(_claimed_per_sample(seen))} used {_us(used_ns)} of processor "
            f"time on at most {cores} cores",
        )


def _idle(seen: Observations) -> Iterator[Suspicion]:
    """Look for work while others were timed, and while nobody was."""
    for times, when in ((seen.idle, "others were timed"), (seen.silences, "nobody was timed")):
        over = [cpu_ns - _BACKGROUND_SHARE * wall_ns - _BACKGROUND_NS for wall_ns, cpu_ns in times]
        if _is_above(over, 0.0):
            share = statistics.median(cpu_ns / max(1.0, wall_ns) for wall_ns, cpu_ns in times)
            evidence = f"it kept {share:.0%} of a core busy while {when}"
            yield Suspicion("background_compute", evidence)
            return


def _with_controls(
    seen: Observations,
) -> Iterator[tuple[tuple[Observed, ...], tuple[Observed, ...]]]:
    pairs = zip(seen.blocks, seen.controls, strict=False)
    return ((block, control) for block, control in pairs if block and control)


def _is_above(values: Sequence[float], limit: float) -> bool:
    """Tell whether half of the blocks or more lie above the limit; a few blocks say nothing.

    This is not to be sure. Who is suspected is played again, and again; who is believed is recorded at once.
    """
    return len(values) >= _FEWEST_BLOCKS and statistics.median(values) > limit


def _is_surely_above(values: Iterable[float]) -> bool:
    """Tell whether the median of many blocks is above zero with 95%; a few blocks say nothing."""
    interval = median_interval(list(values))
    return interval is not None and interval[0] > 0


def claimed_per_call_ns(seen: Observations) -> float:
    """Take what the timed samples claim for a call: only that is reported."""
    return statistics.median(
        each.claimed_ns / each.count for block in seen.blocks for each in block
    )


def _claimed_per_sample(seen: Observations) -> float:
    return statistics.median(each.claimed_ns for block in seen.blocks for each in block)


def _median(block: Sequence[Observed], what: Callable[[Observed], float]) -> float:
    return statistics.median(what(each) for each in block)


def _excess(each: Observed) -> float:
    return each.excess_ns


def _claimed(each: Observed) -> float:
    return each.claimed_ns


def _preparing(each: Observed) -> float:
    return each.preparing_ns


def _preparing_cpu(each: Observed) -> float:
    return each.preparing_cpu_ns


def _committing(each: Observed) -> float:
    return each.committing_ns


def _after_the_claim(each: Observed) -> float:
    return each.excess_ns + each.committing_ns


def _running(each: Observed) -> float:
    return each.running_cpu_ns


def _us(nanoseconds: float) -> str:
    return f"{nanoseconds / 1e3:.3g} µs"
