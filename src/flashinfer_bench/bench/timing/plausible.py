"""Does what a contestant claims agree with what can be seen of it from outside? Plain numbers in and out."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from flashinfer_bench.bench.timing.batches import steep_slope
from flashinfer_bench.bench.timing.observed import (
    ALLOWANCE_NS,
    CLAIMED,
    COMMITTING,
    EXCESS,
    PREPARING,
    PREPARING_CPU,
    RELATIVE_ALLOWANCE,
    RUNNING_CPU,
    Suspicion,
    beyond_controls,
    claimed_per_sample_ns,
    is_above,
    is_surely_above,
    median_of,
    typical,
    unsteadiness_ns,
    us,
    with_controls,
)
from flashinfer_bench.bench.timing.statistics import median_interval

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flashinfer_bench.bench.timing.observed import Observations, Observed

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


def suspicions(
    seen: Observations, *, cores: int, strided_elements: int = 0, on_cpu: bool = True
) -> Iterator[Suspicion]:
    """Yield what speaks against a contestant, where it holds for the median of at least six blocks.

    `cores`: how many processors it may use at a time. `strided_elements`: elements of outputs that are not
    contiguous, per call; they take longer to commit. `on_cpu`: whether the work is done by the processor.
    """
    yield from steep_slope(seen, on_cpu=on_cpu)
    yield from _clock(seen)
    yield from _idle(seen)
    yield from _early(seen, on_cpu=on_cpu)
    if on_cpu:
        yield from _hidden(seen, cores, strided_elements)
    else:
        yield from _late_on_a_card(seen, strided_elements)


def _clock(seen: Observations) -> Iterator[Suspicion]:
    """Compare samples with the control's, which spun as long as they claim to have taken.

    The least of a block counts: waiting for a busy machine only ever adds, and a lie is there each time. The
    control keeps one core busy and all of them by turns, so what they differ by counts as unsteadiness.
    """
    surplus, over = [], []
    unsteady_ns = unsteadiness_ns(seen.controls)
    for block, control in with_controls(seen):
        surplus.append(min(map(EXCESS, block)) - max(map(EXCESS, control)))
        count = statistics.median(each.count for each in block)
        claimed_ns = median_of(block, CLAIMED)
        allowed_ns = RELATIVE_ALLOWANCE * claimed_ns + count * ALLOWANCE_NS
        over.append(surplus[-1] - allowed_ns - _WAKE_UP_NS - unsteady_ns)
    interval = median_interval(over)  # noise alone can do this: be sure
    if interval is not None and interval[0] > 0:
        yield Suspicion(
            "implausible",
            f"a sample claimed to take {us(claimed_per_sample_ns(seen))} took {us(statistics.median(surplus))} "
            "longer by the judge's clock than a spin of that length",
        )


def _early(seen: Observations, *, on_cpu: bool) -> Iterator[Suspicion]:
    """Look for work before `go`: while it had to wait, and while inputs were prepared.

    On a card that takes time and next to no processor time, and has to be sure.
    """
    paused = _while_paused(seen)
    if paused is not None:
        yield paused
        return
    claimed_ns = claimed_per_sample_ns(seen) if seen.blocks else 0.0
    surplus = beyond_controls(seen, PREPARING_CPU if on_cpu else PREPARING)
    jitter_ns = _PREPARING_NS if on_cpu else _JITTER_ON_A_CARD_NS
    allowed_ns = jitter_ns + _HIDDEN_SHARE * claimed_ns
    over = [each - _PREPARING_SHARE * usual - allowed_ns for each, usual in surplus]
    if is_above(over, 0.0) if on_cpu else is_surely_above(over):
        evidence = (
            f"preparing the inputs of a sample took {us(typical(surplus))} longer than in the "
            f"control, and the sample is claimed to take {us(claimed_ns)}"
        )
        yield Suspicion("early_compute", evidence)


def _while_paused(seen: Observations) -> Suspicion | None:
    """See what processor time was used while there was nothing to do."""
    waiting = []
    for block, control in with_controls(seen):
        paused = [each.pause_cpu_ns for each in block if each.pause_cpu_ns is not None]
        usual = [each.pause_cpu_ns for each in control if each.pause_cpu_ns is not None]
        if paused and usual:
            waiting.append(statistics.median(paused) - max(usual))
    if not is_above(waiting, _QUIET_NS):
        return None
    return Suspicion(
        "early_compute",
        f"it used {us(statistics.median(waiting))} of processor time between `prepared` and `go`, "
        "when it had nothing to do",
    )


def _hidden(seen: Observations, cores: int, strided_elements: int) -> Iterator[Suspicion]:
    """Compare the processor time of a sample with what its claim leaves room for."""
    over = []
    # The quarter that used least kept one core busy: beyond that it only committed.
    spare = sorted(
        each.running_cpu_ns - each.claimed_ns for group in seen.controls for each in group
    )
    commit_ns = spare[len(spare) // 4] if spare else 0.0
    for block, _ in with_controls(seen):
        count = statistics.median(each.count for each in block)
        allowed_ns = (
            cores * (1 + RELATIVE_ALLOWANCE) * (median_of(block, CLAIMED) + count * ALLOWANCE_NS)
            + (1 + _COMMIT_SHARE) * max(0.0, commit_ns)
            + count * strided_elements * _STRIDED_NS_PER_ELEMENT
            + _PREPARING_NS
        )
        over.append(median_of(block, RUNNING_CPU) - allowed_ns)
    if is_above(over, 0.0):
        used_ns = statistics.median(median_of(block, RUNNING_CPU) for block in seen.blocks)
        yield Suspicion(
            "hidden_work",
            f"a sample claimed to take {us(claimed_per_sample_ns(seen))} used {us(used_ns)} of processor "
            f"time on at most {cores} cores",
        )


def _late_on_a_card(seen: Observations, strided_elements: int) -> Iterator[Suspicion]:
    """Look for work after the clock stopped: all of it, until outputs are committed, against the control's.

    When exactly the answer that calls returned was heard says little: the one that outputs are committed is
    already there when the judge was slow to wake up.
    """
    claimed_ns = claimed_per_sample_ns(seen) if seen.blocks else 0.0
    count = seen.blocks[0][0].count if seen.blocks and seen.blocks[0] else 1
    surplus = beyond_controls(seen, _after_the_claim)
    usual_ns = (
        statistics.median(median_of(each, COMMITTING) for each in seen.controls if each)
        if surplus
        else 0.0
    )
    allowed_ns = (
        _JITTER_ON_A_CARD_NS
        + RELATIVE_ALLOWANCE * claimed_ns
        + count * (ALLOWANCE_NS + strided_elements * _STRIDED_NS_PER_ELEMENT)
        + _COMMIT_SHARE * usual_ns
    )
    if is_surely_above(each - allowed_ns for each, _ in surplus):
        yield Suspicion(
            "hidden_work",
            f"from the order to go until outputs were committed a sample took {us(typical(surplus))} longer "
            f"than the control, beyond the {us(claimed_ns)} it is claimed to take",
        )


def _after_the_claim(each: Observed) -> float:
    return each.excess_ns + each.committing_ns


def _idle(seen: Observations) -> Iterator[Suspicion]:
    """Look for work while others were timed, and while nobody was."""
    for times, when in ((seen.idle, "others were timed"), (seen.silences, "nobody was timed")):
        over = [cpu_ns - _BACKGROUND_SHARE * wall_ns - _BACKGROUND_NS for wall_ns, cpu_ns in times]
        if is_above(over, 0.0):
            share = statistics.median(cpu_ns / max(1.0, wall_ns) for wall_ns, cpu_ns in times)
            evidence = f"it kept {share:.0%} of a core busy while {when}"
            yield Suspicion("background_compute", evidence)
            return
