"""Does what a candidate claims agree with what can be seen of it from outside? Plain numbers in and out."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from flashinfer_bench.bench.timing.accounts import (
    account,
    account_per_call,
    spare_cpu_ns,
    unaccounted_ns,
)
from flashinfer_bench.bench.timing.batches import steep_slope
from flashinfer_bench.bench.timing.observed import (
    BESIDE,
    CLAIMED,
    COMMITTING,
    EXCESS,
    LATE,
    PREPARING,
    PREPARING_CPU,
    RELATIVE_ALLOWANCE,
    RUNNING_CPU,
    Suspicion,
    beyond_controls,
    claimed_per_call_ns,
    claimed_per_sample_ns,
    is_above,
    is_above_where_fast,
    is_surely_above,
    median_of,
    typical,
    unsteadiness_ns,
    us,
    with_controls,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flashinfer_bench.bench.timing.observed import Observations

_QUIET_NS = 20_000.0
"""Processor time that an idle process may use in a pause: it goes to sleep, a timer fires."""
_WAKE_UP_NS = 15_000.0
_PREPARING_SHARE, _COMMIT_SHARE = 0.3, 0.3
_JITTER_ON_A_CARD_NS = 150_000.0
"""On a card: what the medians of honest candidates and of controls differ by (an H200, idle and loaded); and shares
of what preparing and committing take: the caches that a kernel leaves behind are not the control's."""
_BIRTH_NS = 500_000.0
"""What a process uses to come into being."""
_BACKGROUND_SHARE, _BACKGROUND_NS = 0.1, 1_000_000.0
"""Of a core, while others are timed: timers and threads that go to sleep."""


def suspicions(
    observations: Observations, *, cores: int, on_cpu: bool = True
) -> Iterator[Suspicion]:
    """Yield what speaks against a candidate, where it holds for the median of at least six blocks.

    `cores`: how many processors it may use at a time. `on_cpu`: whether the work is done by the processor.
    """
    yield from steep_slope(observations, on_cpu=on_cpu)
    yield from _idle(observations)
    paused = _while_paused(observations)
    if paused is not None:
        yield paused
    if on_cpu:
        early = [] if paused is not None else list(_early(observations))
        yield from early
        yield from _late(observations, cores, is_early=bool(early))
    else:
        yield from _clock_on_a_card(observations)
        if paused is None:
            yield from _early_on_a_card(observations)
        yield from _late_on_a_card(observations)


def _early(observations: Observations) -> Iterator[Suspicion]:
    """Look for work while inputs were prepared, by processor time: of samples, and of each call of a batch."""
    if not observations.blocks:
        return
    claimed_ns, per_call_ns = claimed_per_sample_ns(observations), claimed_per_call_ns(observations)
    samples, calls = (
        account(observations, PREPARING_CPU),
        account_per_call(observations, PREPARING_CPU),
    )
    waited = account(observations, PREPARING)
    if _may_have_started_some(observations) and waited.is_overdrawn(claimed_ns):
        yield Suspicion(
            "early_compute",
            f"preparing the inputs of a sample took {us(waited.typical_ns)} longer than in the trusted "
            f"processes, and the sample is claimed to take {us(claimed_ns)}",
        )
    elif samples.is_overdrawn(claimed_ns):
        yield Suspicion(
            "early_compute",
            f"preparing the inputs of a sample took {us(samples.typical_ns)} of processor time more than "
            f"in the trusted processes, and the sample is claimed to take {us(claimed_ns)}",
        )
    elif calls.is_overdrawn(per_call_ns):
        yield Suspicion(
            "early_compute",
            f"preparing each call of a batch took {us(calls.typical_ns)} of processor time more than in a "
            f"trusted process, and a call is claimed to take {us(per_call_ns)}",
        )


def _may_have_started_some(observations: Observations) -> bool:
    """Tell whether processes that were gone before anyone could look did work: by the kernel's count, if it counts.

    Without any, time that passes while inputs are prepared, and no processor time, is waiting for a processor.
    """
    if not observations.unmet:
        return True
    return any(
        used_ns > RELATIVE_ALLOWANCE * claimed_ns + _QUIET_NS
        for claimed_ns, used_ns in observations.unmet
    )


def _late(observations: Observations, cores: int, *, is_early: bool) -> Iterator[Suspicion]:
    """Look for work from `go` until the outputs are committed, by the judge's clock and by processor time.

    And for a little of it there and a little before, unless it is known to have been done before.
    """
    if not observations.blocks:
        return
    claimed_ns = claimed_per_sample_ns(observations)
    samples = account(observations, LATE)
    if samples.is_overdrawn(claimed_ns):
        yield Suspicion(
            "hidden_work",
            f"a sample claimed to take {us(claimed_ns)} took {us(samples.typical_ns)} longer by the judge's "
            "clock, until its outputs were committed, than those of the trusted processes",
        )
        return
    together = account(observations, BESIDE)
    if not is_early and together.is_overdrawn(claimed_ns):
        yield Suspicion(
            "hidden_work",
            f"preparing and committing a sample claimed to take {us(claimed_ns)} took "
            f"{us(together.typical_ns)} more, together, than in the trusted processes",
        )
        return
    for times, share, allowed_ns in (
        (
            observations.unmet,
            1 + RELATIVE_ALLOWANCE,
            _QUIET_NS,
        ),  # a call may wait for what it starts
        (observations.born, RELATIVE_ALLOWANCE, _BIRTH_NS),
    ):
        born = [used_ns - share * wall_ns - allowed_ns for wall_ns, used_ns in times]
        claims = [median_of(block, CLAIMED) for block in observations.blocks]
        if is_surely_above(born) or is_above_where_fast(born, claims):
            used_ns = statistics.median(used_ns for _, used_ns in times)
            yield Suspicion(
                "hidden_work",
                f"processes that it started within a block used {us(used_ns)} of processor time by its end",
            )
            return
    spare_ns, spread_ns = spare_cpu_ns(observations, cores=cores)
    allowed_ns = cores * (1 + RELATIVE_ALLOWANCE) * claimed_ns + spare_ns + spread_ns
    over = [median_of(block, RUNNING_CPU) - allowed_ns for block in observations.blocks]
    claims = [median_of(block, CLAIMED) for block in observations.blocks]
    if is_surely_above(over) or is_above_where_fast(over, claims):
        used_ns = statistics.median(median_of(block, RUNNING_CPU) for block in observations.blocks)
        yield Suspicion(
            "hidden_work",
            f"a sample claimed to take {us(claimed_ns)} used {us(used_ns)} of processor "
            f"time on at most {cores} cores",
        )


def unaccounted(observations: Observations, *, on_cpu: bool = True) -> float | None:
    """Return how much work per call could lie beside the claim unseen, in nanoseconds; None if it cannot be told."""
    return unaccounted_ns(observations, PREPARING_CPU if on_cpu else PREPARING, LATE)


def _clock_on_a_card(observations: Observations) -> Iterator[Suspicion]:
    """Compare samples with the control's, which spun as long as they claim to have taken.

    The least of a block counts: waiting for a busy machine only ever adds, and a lie is there each time.
    """
    surplus, over = [], []
    unsteady_ns = unsteadiness_ns(observations.controls)
    for block, control in with_controls(observations):
        surplus.append(min(map(EXCESS, block)) - max(map(EXCESS, control)))
        count = statistics.median(each.count for each in block)
        claimed_ns = median_of(block, CLAIMED)
        allowed_ns = RELATIVE_ALLOWANCE * claimed_ns + count * observations.allowance_ns
        over.append(surplus[-1] - allowed_ns - _WAKE_UP_NS - unsteady_ns)
    if is_surely_above(over):  # noise alone can do this: be sure
        yield Suspicion(
            "implausible",
            f"a sample claimed to take {us(claimed_per_sample_ns(observations))} took {us(statistics.median(surplus))} "
            "longer by the judge's clock than a spin of that length",
        )


def _early_on_a_card(observations: Observations) -> Iterator[Suspicion]:
    """Look for work before `go`: on a card that takes time, and next to no processor time."""
    claimed_ns = claimed_per_sample_ns(observations) if observations.blocks else 0.0
    surplus = beyond_controls(observations, PREPARING)
    allowed_ns = _JITTER_ON_A_CARD_NS + RELATIVE_ALLOWANCE * claimed_ns
    if is_surely_above(each - _PREPARING_SHARE * usual - allowed_ns for each, usual in surplus):
        yield Suspicion(
            "early_compute",
            f"preparing the inputs of a sample took {us(typical(surplus))} longer than in the "
            f"control, and the sample is claimed to take {us(claimed_ns)}",
        )


def _while_paused(observations: Observations) -> Suspicion | None:
    """See what processor time was used while there was nothing to do."""
    waiting = []
    for block, control in with_controls(observations):
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


def _late_on_a_card(observations: Observations) -> Iterator[Suspicion]:
    """Look for work after the clock stopped: all of it, until outputs are committed, against the control's.

    When exactly the answer that calls returned was heard says little: the one that outputs are committed is
    already there when the judge was slow to wake up.
    """
    claimed_ns = claimed_per_sample_ns(observations) if observations.blocks else 0.0
    count = observations.blocks[0][0].count if observations.blocks and observations.blocks[0] else 1
    surplus = beyond_controls(observations, LATE)
    usual_ns = (
        statistics.median(median_of(each, COMMITTING) for each in observations.controls if each)
        if surplus
        else 0.0
    )
    allowed_ns = (
        _JITTER_ON_A_CARD_NS
        + RELATIVE_ALLOWANCE * claimed_ns
        + count * observations.allowance_ns
        + _COMMIT_SHARE * usual_ns
    )
    if is_surely_above(each - allowed_ns for each, _ in surplus):
        yield Suspicion(
            "hidden_work",
            f"from the order to go until outputs were committed a sample took {us(typical(surplus))} longer "
            f"than the control, beyond the {us(claimed_ns)} it is claimed to take",
        )


def _idle(observations: Observations) -> Iterator[Suspicion]:
    """Look for work while others were timed, and while nobody was."""
    for times, when in (
        (observations.idle, "others were timed"),
        (observations.silences, "nobody was timed"),
    ):
        over = [cpu_ns - _BACKGROUND_SHARE * wall_ns - _BACKGROUND_NS for wall_ns, cpu_ns in times]
        if is_above(over, 0.0):
            share = statistics.median(cpu_ns / max(1.0, wall_ns) for wall_ns, cpu_ns in times)
            evidence = f"it kept {share:.0%} of a core busy while {when}"
            yield Suspicion("background_compute", evidence)
            return
