"""The judge's outside view of one job: it clocks, reads processor time, and compares with a control."""

from __future__ import annotations

import math
import statistics
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from flashinfer_bench.bench.judge.calls import CallId
from flashinfer_bench.bench.judge.participant import SpinOrder
from flashinfer_bench.bench.timing.accounts import telling_sample_ns
from flashinfer_bench.bench.timing.batches import is_noisy, largest_batch, needs_more_batches
from flashinfer_bench.bench.timing.observed import (
    ALLOWANCE_ON_A_CARD_NS,
    REPLAY_ALLOWANCE_NS,
    Observations,
    Observed,
    claimed_per_call_ns,
)
from flashinfer_bench.bench.timing.plausible import suspicions, unaccounted
from flashinfer_bench.bench.timing.turns import SHORTEST_SAMPLE_NS, SHORTEST_SAMPLE_ON_CPU_NS

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Sequence

    from flashinfer_bench.bench.judge.participant import Participant, Sample
    from flashinfer_bench.bench.timing.observed import Suspicion

_PAUSE_PROBABILITY = 0.15
_SHORTEST_PAUSE_S, _LONGEST_PAUSE_S, _LONGEST_LONG_PAUSE_S = 50e-6, 250e-6, 1e-3
_CHECK_PROBABILITY = 0.2
_BATCH_PAIRS = 6  # six pairs: the smallest of their slopes lies below the median with 98%
_BATCH_PAIRS_OF_FEW_CALLS = (
    12  # on a card, where waking up varies more and batches as long as they should be may not fit
)
_SILENCES, SILENCE_S = 8, 5e-3
_LONGEST_SPIN_NS = 2_000_000
_PAUSES, _PAUSES_ON_A_CARD = (False, True), (True, True, True)  # of a block's controls
_LONGEST_BATCH_BESIDE_NS = 20_000_000
_UNTIMED_PEERS = 3
_FIRST_LOOKS = 11  # at the control, to see how much samples vary here


class Monitor:
    """Observes the judged participants; the control is the reference's process, which nobody else can touch."""

    def __init__(
        self,
        judged: Sequence[Participant],
        control: Participant | None,
        *,
        trials: int,
        cores: int,
        on_cpu: bool,
        is_cold: bool = False,
    ) -> None:
        self._observations = {
            id(participant): Observations(allowance_ns=_allowance_ns(participant), is_cold=is_cold)
            for participant in judged
        }
        self._judged = tuple(judged)
        self._control = control
        self._trials = trials
        self._cores, self._on_cpu = cores, on_cpu
        self._serial = self._spins = 0
        self._longest_sample_s = 0.0
        self._untimed_ns: float | None = None

    def pause_s(self, participant: Participant, trial: int, call: CallId) -> float:
        """Say how long a candidate has to wait before this call; mostly not at all.

        Long enough, sometimes, for all the work of a sample: who does it now cannot be done when `go` comes.
        """
        coin = participant.toss(trial, call, "pause")
        if coin.random() >= _PAUSE_PROBABILITY:
            return 0.0
        longest_s = max(_LONGEST_PAUSE_S, min(_LONGEST_LONG_PAUSE_S, self._longest_sample_s))
        return coin.uniform(_SHORTEST_PAUSE_S, longest_s)

    @contextmanager
    def others_idle(self, busy: Participant) -> Iterator[None]:
        """Watch that while one candidate is timed the judged ones besides it do nothing."""
        others = [participant for participant in self._judged if participant is not busy]
        for participant in others:
            participant.link.cpu.look_for_children()
        if self._on_cpu:  # what is born within the block counts there
            busy.link.cpu.look_for_children()
        started_ns = busy.link.now_ns()
        before = [participant.link.cpu.read_ns() for participant in others]
        yield
        wall_ns = float(busy.link.now_ns() - started_ns)
        for participant, before_ns in zip(others, before, strict=True):
            cpu = participant.link.cpu
            used_ns = cpu.read_ns() - before_ns
            used_ns += cpu.look_for_children().unmet_ns or 0
            self._observations[id(participant)].idle.append((wall_ns, used_ns))

    def add_block(self, participant: Participant, trial: int, samples: Sequence[Sample]) -> None:
        """Take in a block of a judged participant, and see what the control shows for samples as long as these."""
        typical_s = (
            1e-9 * statistics.median(each.elapsed_ns for each in samples) if samples else 0.0
        )
        self._longest_sample_s = max(self._longest_sample_s, typical_s)
        block = tuple(sample.observed for sample in samples)
        if participant is self._control:
            for judged in self._observations.values():
                judged.peers.append(block)
                judged.stirred += [used_ns for _, used_ns in judged.idle[-1:]]
        observations = self._observations.get(id(participant))
        if observations is None or not samples:
            return
        if self._on_cpu:
            claimed_ns = sum(each.claimed_ns for each in block)
            children = participant.link.cpu.look_for_children()
            if children.unmet_ns is not None:
                observations.unmet.append((claimed_ns, float(children.unmet_ns)))
            observations.born.append((claimed_ns, float(children.born_ns)))
        observations.blocks.append(block)
        if self._control is not None and not self._control.link.is_timed:
            peers = self._untimed_peers(trial, block[0].count) if self._on_cpu else ()
            observations.peers.append(peers)
        observations.controls.append(
            self._see_control(participant, trial, block) if self._control else ()
        )

    def start_over(self) -> None:
        """Forget the blocks so far: their samples had too few calls."""
        for observations in self._observations.values():
            observations.peers.clear()
            observations.stirred.clear()
            observations.blocks.clear()
            observations.born.clear()
            observations.unmet.clear()
            observations.controls.clear()

    def largest_batch(self, participant: Participant, *, most: int) -> int:
        """Say how many calls a batch of a participant needs."""
        observations = self._observations[id(participant)]
        return largest_batch(observations, most=most, on_cpu=self._on_cpu)

    def run_batches(
        self,
        participant: Participant,
        trial: int,
        *,
        largest: int,
        hides_launches: bool = False,
        takes_rest: bool = False,
    ) -> Iterator[tuple[CallId, Sample]]:
        """Order pairs of batches, a few calls and many, in secret sizes; yield each so that it can be checked.

        `hides_launches`: whether the clock was told to hide those of the largest batch. `takes_rest`: there will be no
        other trial, and what was planned for those is done now.
        """
        observations = self._observations[id(participant)]
        if self._on_cpu and is_noisy(observations):
            self._listen(participant, observations)
        if largest <= 1:
            return
        observations.hides_launches = hides_launches
        wanted = self._wanted_pairs(observations, largest, takes_rest=takes_rest)
        while len(observations.batches) < wanted or needs_more_batches(
            observations, on_cpu=self._on_cpu
        ):
            self._serial += 1
            call, other = (CallId("batch", 2 * self._serial + index) for index in range(2))
            coin = participant.toss(trial, call, "batch")
            low = coin.randint(1, max(1, largest // 6))
            high = coin.randint(max(low + 1, largest - largest // 6), largest)
            first = participant.sample(trial, call, low, slots=_slot_of(participant, coin, low))
            yield call, first
            second = participant.sample(trial, other, high, slots=_slot_of(participant, coin, high))
            yield other, second
            observations.batches.append((first.observed, second.observed))
            if self._control is not None and self._on_cpu:
                beside = self._pair_beside(participant, trial, low, high)
                observations.control_batches.append(beside)

    def _wanted_pairs(self, observations: Observations, largest: int, *, takes_rest: bool) -> int:
        """Say how many pairs there are to be by the end of this trial; what they say may ask for more."""
        is_long = self._on_cpu or largest >= largest_batch(observations, on_cpu=False)
        pairs = _BATCH_PAIRS if is_long else _BATCH_PAIRS_OF_FEW_CALLS
        per_trial = math.ceil(pairs / self._trials)
        return per_trial * self._trials if takes_rest else len(observations.batches) + per_trial

    def _listen(self, participant: Participant, observations: Observations) -> None:
        """See whether the noise is of the candidate's own making: while nobody has work, it should have none."""
        for _ in range(_SILENCES):
            participant.link.cpu.look_for_children()
            started_ns, before_ns = participant.link.now_ns(), participant.link.cpu.read_ns()
            participant.link.sleep(SILENCE_S)
            used_ns = participant.link.cpu.read_ns() - before_ns
            observations.silences.append((float(participant.link.now_ns() - started_ns), used_ns))

    def observations(self, participant: Participant) -> Observations:
        """Give what was observed of a participant so far."""
        return self._observations[id(participant)]

    def suspicions(self, participant: Participant) -> list[Suspicion]:
        """Say what speaks against a participant."""
        observations = self.observations(participant)
        return list(suspicions(observations, cores=self._cores, on_cpu=self._on_cpu))

    def unaccounted_ns(self, participant: Participant) -> float | None:
        """Say how much work per call could lie beside what a participant claims, unseen."""
        return unaccounted(self.observations(participant), on_cpu=self._on_cpu)

    def sample_ns(self, trial: int) -> float:
        """Say how long samples have to be here and now, so that work beside them can be seen."""
        if not self._on_cpu or self._control is None:
            return SHORTEST_SAMPLE_NS
        looks = [
            self._control_sample(trial, 1, SHORTEST_SAMPLE_ON_CPU_NS) for _ in range(_FIRST_LOOKS)
        ]
        return telling_sample_ns(looks[1:])

    def _see_control(
        self, participant: Participant, trial: int, block: Sequence[Observed]
    ) -> tuple[Observed, ...]:
        """Look at the control, but not at its first sample: caches, or the card, were somebody else's.

        On a CPU when the candidate is at rest; what it computes meanwhile all the same is no excuse for it.
        """
        if not self._on_cpu:
            self._spin(participant, trial, block, pauses=True)
            return tuple(
                self._spin(participant, trial, block, pauses=each) for each in _PAUSES_ON_A_CARD
            )
        participant.settle()
        self._spin(participant, trial, block, pauses=False)
        return tuple(self._spin_beside(participant, trial, block, pauses=each) for each in _PAUSES)

    def _spin_beside(
        self, participant: Participant, trial: int, block: Sequence[Observed], *, pauses: bool
    ) -> Observed:
        cpu = participant.link.cpu
        before_ns = cpu.read_ns()
        seen = self._spin(participant, trial, block, pauses=pauses)
        return _without(seen, cpu.read_ns() - before_ns)

    def _spin(
        self, participant: Participant, trial: int, block: Sequence[Observed], *, pauses: bool
    ) -> Observed:
        spin_ns = min(_LONGEST_SPIN_NS, round(statistics.median(each.claimed_ns for each in block)))
        self._spins += 1
        return self._control_sample(
            trial, block[0].count, max(1, spin_ns), pauses=pauses, host_ns=participant.hidden_ns
        )

    def _pair_beside(
        self, participant: Participant, trial: int, low: int, high: int
    ) -> tuple[Observed, Observed]:
        """Have trusted processes take as many calls; what the candidate computes meanwhile is no excuse for it."""
        observations, cpu = self.observations(participant), participant.link.cpu
        before_ns = cpu.read_ns()
        first = self._beside(observations, trial, low)
        second = self._beside(observations, trial, high)
        disturbed_ns = cpu.read_ns() - before_ns
        return first, replace(second, outside_ns=second.outside_ns - disturbed_ns)

    def _beside(self, observations: Observations, trial: int, count: int) -> Observed:
        """Have as many calls prepared, run and committed as a batch has; a slow reference only spins."""
        peers = observations.peers[-1] if observations.peers else ()
        reference_ns = max((each.claimed_ns / each.count for each in peers), default=math.inf)
        if reference_ns * count < _LONGEST_BATCH_BESIDE_NS:
            return self._reference_sample(trial, count)
        return self._control_sample(
            trial, count, max(1, round(count * claimed_per_call_ns(observations)))
        )

    def _untimed_peers(self, trial: int, count: int) -> tuple[Observed, ...]:
        """Have a reference that is not timed do as much, the first time unseen; one that takes long is left alone.

        Before the control spins in the same process: it would find the reference's caches warm, unlike a candidate's.
        """
        if self._untimed_ns is None:
            self._untimed_ns = self._reference_sample(trial, 1).claimed_ns
        if self._untimed_ns * count >= _LONGEST_BATCH_BESIDE_NS:
            return ()
        samples = [self._reference_sample(trial, count) for _ in range(1 + _UNTIMED_PEERS)]
        return tuple(samples[1:])

    def _reference_sample(self, trial: int, count: int) -> Observed:
        assert self._control is not None
        self._serial += 1
        return self._control.sample(trial, CallId("control", self._serial), count).observed

    def _control_sample(
        self,
        trial: int,
        count: int,
        spin_ns: int,
        *,
        pauses: bool = False,
        host_ns: float | None = None,
    ) -> Observed:
        assert self._control is not None
        self._serial += 1
        sample = self._control.sample(
            trial,
            CallId("control", self._serial),
            count,
            pause_s=_SHORTEST_PAUSE_S if pauses else 0.0,
            # a block on all cores, a block on one
            spin=SpinOrder(spin_ns, self._spins // 4 % 2 == 0, host_ns),
        )
        return sample.observed


def _allowance_ns(participant: Participant) -> float:
    """Say by how much a claim may be short for each call on a card."""
    if participant.replays_graphs and participant.is_told_late:
        return REPLAY_ALLOWANCE_NS
    return ALLOWANCE_ON_A_CARD_NS


def _without(seen: Observed, disturbed_ns: float) -> Observed:
    """Take off what somebody else computed meanwhile."""
    return replace(
        seen,
        outside_ns=seen.outside_ns - disturbed_ns,
        preparing_ns=seen.preparing_ns - disturbed_ns,
    )


def _slot_of(participant: Participant, coin: random.Random, count: int) -> tuple[int, ...]:
    """Choose the call of a batch that is checked, mostly none; the last where all share one buffer."""
    if coin.random() >= _CHECK_PROBABILITY:
        return ()
    return (count - 1 if participant.findings.shares_buffers else coin.randrange(count),)
