"""The judge's outside view of one job: it clocks, reads processor time, and compares with a control."""

from __future__ import annotations

import math
import statistics
import time
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from flashinfer_bench.bench.timing.accounts import telling_sample_ns
from flashinfer_bench.bench.timing.batches import is_noisy, largest_batch, needs_more_batches
from flashinfer_bench.bench.timing.observed import Observations, Observed, claimed_per_call_ns
from flashinfer_bench.bench.timing.plausible import suspicions, unaccounted
from flashinfer_bench.bench.timing.turns import SHORTEST_SAMPLE_NS, SHORTEST_SAMPLE_ON_CPU_NS

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Sequence

    from flashinfer_bench.bench.timing.observed import Suspicion
    from flashinfer_bench.bench.worker.side import Sample, Side

_PAUSE_PROBABILITY = 0.15
_SHORTEST_PAUSE_S, _LONGEST_PAUSE_S, _LONGEST_LONG_PAUSE_S = 50e-6, 250e-6, 1e-3
_CHECK_PROBABILITY = 0.2
_BATCH_PAIRS = 6  # six pairs: the smallest of their slopes lies below the median with 98%
_BATCH_PAIRS_ON_A_CARD = 12  # few calls fit into a batch there, and waking up varies more
_SILENCES, _SILENCE_S = 8, 5e-3
_LONGEST_SPIN_NS = 2_000_000
_PAUSES, _PAUSES_ON_A_CARD = (False, True), (True, True, True)  # of a block's controls
_LONGEST_BATCH_BESIDE_NS = 20_000_000
_UNTIMED_PEERS = 3
_FIRST_LOOKS = 11  # at the control, to see how much samples vary here
_BATCH_CALLS, _CONTROL_CALLS = -1_000_000, -2_000_000  # inputs that occur nowhere else


class Watch:
    """Observes the judged sides of a job; the control is the reference's process, which nobody else can touch."""

    def __init__(
        self, judged: Sequence[Side], control: Side | None, *, trials: int, cores: int, on_cpu: bool
    ) -> None:
        self._seen = {id(side): Observations() for side in judged}
        self._judged = tuple(judged)
        self._control = control
        pairs = _BATCH_PAIRS if on_cpu else _BATCH_PAIRS_ON_A_CARD
        self._pairs_per_trial = math.ceil(pairs / trials)
        self._cores, self._on_cpu = cores, on_cpu
        self._serial = self._spins = 0
        self._longest_sample_s = 0.0
        self._untimed_ns: float | None = None

    def pause_s(self, side: Side, trial: int, call: int) -> float:
        """Say how long a contestant has to wait before this call; mostly not at all.

        Long enough, sometimes, for all the work of a sample: who does it now cannot be done when `go` comes.
        """
        coin = side.toss(trial, call, "pause")
        if coin.random() >= _PAUSE_PROBABILITY:
            return 0.0
        longest_s = max(_LONGEST_PAUSE_S, min(_LONGEST_LONG_PAUSE_S, self._longest_sample_s))
        return coin.uniform(_SHORTEST_PAUSE_S, longest_s)

    @contextmanager
    def others_idle(self, busy: Side) -> Iterator[None]:
        """Watch that while one contestant is timed the judged ones besides it do nothing."""
        others = [side for side in self._judged if side is not busy]
        for side in others:
            side.link.cpu.look_for_children()
        busy.link.cpu.look_for_children()
        started_ns = time.perf_counter_ns()
        before = [side.link.cpu.read_ns() for side in others]
        yield
        wall_ns = float(time.perf_counter_ns() - started_ns)
        for side, used_ns in zip(others, before, strict=True):
            self._seen[id(side)].idle.append((wall_ns, side.link.cpu.read_ns() - used_ns))

    def add_block(self, side: Side, trial: int, samples: Sequence[Sample]) -> None:
        """Take in a block of a judged side, and see what the control shows for samples as long as these."""
        typical_s = (
            1e-9 * statistics.median(each.elapsed_ns for each in samples) if samples else 0.0
        )
        self._longest_sample_s = max(self._longest_sample_s, typical_s)
        block = tuple(sample.observed for sample in samples)
        if side is self._control:
            for judged in self._seen.values():
                judged.peers.append(block)
        seen = self._seen.get(id(side))
        if seen is None or not samples:
            return
        if self._on_cpu:
            claimed_ns = sum(each.claimed_ns for each in block)
            seen.born.append((claimed_ns, float(side.link.cpu.born_ns())))
        seen.blocks.append(block)
        seen.controls.append(self._see_control(trial, block) if self._control else ())
        if self._control is not None and not self._control.link.is_timed:
            seen.peers.append(self._untimed_peers(trial, block[0].count) if self._on_cpu else ())

    def start_over(self) -> None:
        """Forget the blocks so far: their samples had too few calls."""
        for seen in self._seen.values():
            seen.peers.clear()
            seen.blocks.clear()
            seen.born.clear()
            seen.controls.clear()

    def run_batches(self, side: Side, trial: int, *, most: int) -> Iterator[tuple[int, Sample]]:
        """Order pairs of batches, a few calls and many, in secret sizes; yield each so that it can be checked."""
        seen = self._seen[id(side)]
        if self._on_cpu and is_noisy(seen):
            self._listen(side, seen)
        largest = largest_batch(seen, most=most, on_cpu=self._on_cpu)
        if largest <= 1:
            return
        before = len(seen.batches)
        while len(seen.batches) < before + self._pairs_per_trial or needs_more_batches(
            seen, on_cpu=self._on_cpu
        ):
            self._serial += 1
            call = _BATCH_CALLS - 2 * self._serial
            coin = side.toss(trial, call, "batch")
            low = coin.randint(1, max(1, largest // 6))
            high = coin.randint(max(low + 1, largest - largest // 6), largest)
            first = side.sample(trial, call, low, slots=_slot_of(side, coin, low))
            yield call, first
            second = side.sample(trial, call - 1, high, slots=_slot_of(side, coin, high))
            yield call - 1, second
            seen.batches.append((first.observed, second.observed))
            if self._control is not None and self._on_cpu:
                seen.control_batches.append(self._pair_beside(side, trial, low, high))

    def _listen(self, side: Side, seen: Observations) -> None:
        """See whether the noise is of the contestant's own making: while nobody has work, it should have none."""
        for _ in range(_SILENCES):
            side.link.cpu.look_for_children()
            started_ns, before_ns = time.perf_counter_ns(), side.link.cpu.read_ns()
            time.sleep(_SILENCE_S)
            used_ns = side.link.cpu.read_ns() - before_ns
            seen.silences.append((float(time.perf_counter_ns() - started_ns), used_ns))

    def observations(self, side: Side) -> Observations:
        """Give what was seen of a side so far."""
        return self._seen[id(side)]

    def suspicions(self, side: Side) -> list[Suspicion]:
        """Say what speaks against a side."""
        return list(suspicions(self.observations(side), cores=self._cores, on_cpu=self._on_cpu))

    def unaccounted_ns(self, side: Side) -> float | None:
        """Say how much work per call could lie beside what a side claims, unseen."""
        return unaccounted(self.observations(side), on_cpu=self._on_cpu)

    def sample_ns(self, trial: int) -> float:
        """Say how long samples have to be here and now, so that work beside them can be seen."""
        if not self._on_cpu or self._control is None:
            return SHORTEST_SAMPLE_NS
        looks = [
            self._control_sample(trial, 1, SHORTEST_SAMPLE_ON_CPU_NS) for _ in range(_FIRST_LOOKS)
        ]
        return telling_sample_ns(looks[1:])

    def _see_control(self, trial: int, block: Sequence[Observed]) -> tuple[Observed, ...]:
        """Look at the control, but not at its first sample: caches, or the card, were somebody else's."""
        self._spin(trial, block, pauses=not self._on_cpu)
        pauses = _PAUSES if self._on_cpu else _PAUSES_ON_A_CARD
        return tuple(self._spin(trial, block, pauses=each) for each in pauses)

    def _spin(self, trial: int, block: Sequence[Observed], *, pauses: bool) -> Observed:
        spin_ns = min(_LONGEST_SPIN_NS, round(statistics.median(each.claimed_ns for each in block)))
        self._spins += 1
        return self._control_sample(trial, block[0].count, max(1, spin_ns), pauses=pauses)

    def _pair_beside(
        self, side: Side, trial: int, low: int, high: int
    ) -> tuple[Observed, Observed]:
        """Have trusted processes take as many calls; what the candidate computes meanwhile is no excuse for it."""
        seen, before_ns = self._seen[id(side)], side.link.cpu.read_ns()
        first, second = self._beside(seen, trial, low), self._beside(seen, trial, high)
        disturbed_ns = side.link.cpu.read_ns() - before_ns
        return first, replace(second, outside_ns=second.outside_ns - disturbed_ns)

    def _beside(self, seen: Observations, trial: int, count: int) -> Observed:
        """Have as many calls prepared, run and committed as a batch has; a slow reference only spins."""
        peers = seen.peers[-1] if seen.peers else ()
        reference_ns = max((each.claimed_ns / each.count for each in peers), default=math.inf)
        if reference_ns * count < _LONGEST_BATCH_BESIDE_NS:
            return self._reference_sample(trial, count)
        return self._control_sample(trial, count, max(1, round(count * claimed_per_call_ns(seen))))

    def _untimed_peers(self, trial: int, count: int) -> tuple[Observed, ...]:
        """Have a reference that is not timed do as much, the first time unseen; one that takes long is left alone."""
        if self._untimed_ns is None:
            self._untimed_ns = self._reference_sample(trial, 1).claimed_ns
        if self._untimed_ns * count >= _LONGEST_BATCH_BESIDE_NS:
            return ()
        samples = [self._reference_sample(trial, count) for _ in range(1 + _UNTIMED_PEERS)]
        return tuple(samples[1:])

    def _reference_sample(self, trial: int, count: int) -> Observed:
        assert self._control is not None
        self._serial += 1
        return self._control.sample(trial, _CONTROL_CALLS - self._serial, count).observed

    def _control_sample(
        self, trial: int, count: int, spin_ns: int, *, pauses: bool = False
    ) -> Observed:
        assert self._control is not None
        self._serial += 1
        sample = self._control.sample(
            trial,
            _CONTROL_CALLS - self._serial,
            count,
            pause_s=_SHORTEST_PAUSE_S if pauses else 0.0,
            spin=(spin_ns, self._spins // 4 % 2 == 0),  # a block on all cores, a block on one
        )
        return sample.observed


def _slot_of(side: Side, coin: random.Random, count: int) -> tuple[int, ...]:
    """Choose the call of a batch that is checked, mostly none; the last where all share one buffer."""
    if coin.random() >= _CHECK_PROBABILITY:
        return ()
    return (count - 1 if side.shares_buffers else coin.randrange(count),)
