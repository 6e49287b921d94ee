"""The judge's outside view of one job: it clocks, reads processor time, and compares with a control."""

from __future__ import annotations

import math
import statistics
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from flashinfer_bench.bench.timing.batches import is_noisy, largest_batch, needs_more_batches
from flashinfer_bench.bench.timing.observed import Observations, Observed
from flashinfer_bench.bench.timing.plausible import suspicions

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
_CONTROLS_ON_A_CARD = 3  # of each block
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
        self._serial = 0
        self._longest_sample_s = 0.0

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
        seen = self._seen.get(id(side))
        if seen is None or not samples:
            return
        block = tuple(sample.observed for sample in samples)
        seen.blocks.append(block)
        seen.controls.append(self._see_control(trial, block) if self._control else ())

    def run_batches(self, side: Side, trial: int, *, most: int) -> Iterator[tuple[int, Sample]]:
        """Order pairs of batches, a few calls and many, in secret sizes; yield each so that it can be checked."""
        seen = self._seen[id(side)]
        if self._on_cpu and is_noisy(seen):
            self._listen(side, seen)
        largest = largest_batch(seen, most=most)
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

    def _listen(self, side: Side, seen: Observations) -> None:
        """See whether the noise is of the contestant's own making: while nobody has work, it should have none."""
        for _ in range(_SILENCES):
            side.link.cpu.look_for_children()
            started_ns, before_ns = time.perf_counter_ns(), side.link.cpu.read_ns()
            time.sleep(_SILENCE_S)
            used_ns = side.link.cpu.read_ns() - before_ns
            seen.silences.append((float(time.perf_counter_ns() - started_ns), used_ns))

    def suspicions(self, side: Side) -> list[Suspicion]:
        """Say what speaks against a side."""
        return list(
            suspicions(
                self._seen[id(side)],
                cores=self._cores,
                strided_elements=side.strided_elements,
                on_cpu=self._on_cpu,
            )
        )

    def _see_control(self, trial: int, block: Sequence[Observed]) -> tuple[Observed, ...]:
        if self._on_cpu:
            return (self._control_sample(trial, block),)
        self._control_sample(trial, block)  # a card that changes hands is slower at first
        return tuple(self._control_sample(trial, block) for _ in range(_CONTROLS_ON_A_CARD))

    def _control_sample(self, trial: int, block: Sequence[Observed]) -> Observed:
        assert self._control is not None
        spin_ns = min(_LONGEST_SPIN_NS, round(statistics.median(each.claimed_ns for each in block)))
        self._serial += 1
        sample = self._control.sample(
            trial,
            _CONTROL_CALLS - self._serial,
            block[0].count,
            pause_s=_SHORTEST_PAUSE_S,
            spin=(max(1, spin_ns), self._serial % 2 == 0),  # on one core, or on all of them
        )
        return sample.observed


def _slot_of(side: Side, coin: random.Random, count: int) -> tuple[int, ...]:
    """Choose the call of a batch that is checked, mostly none; the last where all share one buffer."""
    if coin.random() >= _CHECK_PROBABILITY:
        return ()
    return (count - 1 if side.shares_buffers else coin.randrange(count),)
