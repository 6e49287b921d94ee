"""What the judge's outside view keeps of a job: figures of trusted processes, and of whom they stand beside."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

from flashinfer_bench.bench.timing.observed import Observed
from flashinfer_bench.bench.worker.side import Sample, Side
from flashinfer_bench.bench.worker.watch import Watch

CALL_NS = 10_000.0


@dataclass
class Clock:
    """A processor clock that goes on by so much whenever it is read."""

    step_ns: int = 0
    now_ns: int = 0

    def read_ns(self) -> int:
        self.now_ns += self.step_ns
        return self.now_ns

    def look_for_children(self) -> None: ...

    def born_ns(self) -> int:
        return 0


@dataclass(eq=False)
class PlainSide:
    """A participant whose samples take what its calls take."""

    is_timed: bool = True
    clock: Clock = field(default_factory=Clock)
    shares_buffers: bool = False

    @property
    def link(self) -> Any:
        return SimpleNamespace(cpu=self.clock, is_timed=self.is_timed)

    def sample(self, trial: int, call: int, count: int, **_: object) -> Sample:
        del trial, call
        return samples_of(count, 1)[0]

    def toss(self, trial: int, call: int, purpose: str) -> random.Random:
        return random.Random(f"{trial} {call} {purpose}")


def samples_of(count: int, number: int) -> list[Sample]:
    claimed_ns = CALL_NS * count
    observed = Observed(count, claimed_ns, claimed_ns)
    each = cast("Sample", SimpleNamespace(observed=observed, elapsed_ns=claimed_ns, slots=()))
    return [each] * number


def watch(*judged: PlainSide, control: PlainSide) -> Watch:
    sides = [cast("Side", side) for side in judged]
    return Watch(sides, cast("Side", control), trials=3, cores=2, on_cpu=True)


def test_with_an_untimed_reference_each_side_has_peers_of_its_own_blocks() -> None:
    old, new, reference = PlainSide(), PlainSide(), PlainSide(is_timed=False)
    seen = watch(old, new, control=reference)

    for size in (1, 2, 3):
        for side in (old, new):
            seen.add_block(cast("Side", side), 0, samples_of(size, 4))

    for side in (old, new):
        kept = seen.observations(cast("Side", side))
        counts = [group[0].count for group in kept.peers]
        assert counts == [block[0].count for block in kept.blocks] == [1, 2, 3]


def test_a_timed_reference_is_everybodys_peer() -> None:
    side, reference = PlainSide(), PlainSide()
    seen = watch(side, control=reference)

    for each in (reference, side):
        seen.add_block(cast("Side", each), 0, samples_of(2, 4))

    assert [len(group) for group in seen.observations(cast("Side", side)).peers] == [4]


def test_what_a_candidate_computes_while_trusted_batches_run_is_no_excuse() -> None:
    excesses = []
    for step_ns in (0, 500_000):
        side, reference = PlainSide(clock=Clock(step_ns)), PlainSide()
        seen = watch(side, control=reference)
        seen.add_block(cast("Side", reference), 0, samples_of(2, 4))
        seen.add_block(cast("Side", side), 0, samples_of(2, 4))
        list(seen.run_batches(cast("Side", side), 0, most=64))
        pairs = seen.observations(cast("Side", side)).control_batches
        excesses.append({high.excess_ns - low.excess_ns for low, high in pairs})

    assert excesses == [{0.0}, {-500_000.0}]
