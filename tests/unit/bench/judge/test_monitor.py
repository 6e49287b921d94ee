"""What the judge's outside view keeps of a job: figures of trusted processes, and of whom they stand beside."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from flashinfer_bench.bench.judge.calls import CallId
from flashinfer_bench.bench.judge.cpu_clock import Children
from flashinfer_bench.bench.judge.findings import Findings
from flashinfer_bench.bench.judge.monitor import Monitor
from flashinfer_bench.bench.judge.participant import Participant, Sample
from flashinfer_bench.bench.timing.observed import (
    ALLOWANCE_ON_A_CARD_NS,
    REPLAY_ALLOWANCE_NS,
    Observed,
)

CALL_NS = 10_000.0


@dataclass
class Clock:
    """A processor clock that goes on by so much whenever it is read."""

    step_ns: int = 0
    now_ns: int = 0

    def read_ns(self) -> int:
        self.now_ns += self.step_ns
        return self.now_ns

    def look_for_children(self) -> Children:
        return Children(0, 0)


@dataclass(eq=False)
class PlainParticipant:
    """A participant whose samples take what its calls take."""

    is_timed: bool = True
    replays_graphs: bool = False
    is_told_late: bool = False
    hidden_ns: float | None = None
    clock: Clock = field(default_factory=Clock)
    findings: Findings = field(default_factory=Findings)
    spins: list[object] = field(default_factory=list)
    """What its samples were to spin for, if at all."""

    @property
    def link(self) -> Any:
        return SimpleNamespace(cpu=self.clock, is_timed=self.is_timed, now_ns=lambda: 0)

    def settle(self) -> None: ...

    def sample(self, trial: int, call: CallId, count: int, **options: object) -> Sample:
        del trial, call
        self.spins.append(options.get("spin"))
        return samples_of(count, 1)[0]

    def toss(self, trial: int, call: CallId, purpose: str) -> random.Random:
        return random.Random(f"{trial} {call} {purpose}")


def samples_of(count: int, number: int) -> list[Sample]:
    claimed_ns = CALL_NS * count
    observed = Observed(count, claimed_ns, claimed_ns)
    each = cast("Sample", SimpleNamespace(observed=observed, elapsed_ns=claimed_ns, slots=()))
    return [each] * number


def monitor(*judged: PlainParticipant, control: PlainParticipant, on_cpu: bool = True) -> Monitor:
    participants = [cast("Participant", participant) for participant in judged]
    return Monitor(participants, cast("Participant", control), trials=3, cores=2, on_cpu=on_cpu)


def test_with_an_untimed_reference_each_participant_has_peers_of_its_own_blocks() -> None:
    old, new, reference = PlainParticipant(), PlainParticipant(), PlainParticipant(is_timed=False)
    monitored = monitor(old, new, control=reference)

    for size in (1, 2, 3):
        for participant in (old, new):
            monitored.add_block(cast("Participant", participant), 0, samples_of(size, 4))

    for participant in (old, new):
        kept = monitored.observations(cast("Participant", participant))
        counts = [group[0].count for group in kept.peers]
        assert counts == [block[0].count for block in kept.blocks] == [1, 2, 3]


def test_an_untimed_reference_computes_before_the_control_spins_in_its_process() -> None:
    candidate, reference = PlainParticipant(), PlainParticipant(is_timed=False)
    monitored = monitor(candidate, control=reference)

    monitored.add_block(cast("Participant", candidate), 0, samples_of(2, 4))

    spins = [isinstance(each, tuple) for each in reference.spins]
    assert True in spins
    assert spins == sorted(spins)


def test_a_timed_reference_is_everybodys_peer() -> None:
    participant, reference = PlainParticipant(), PlainParticipant()
    monitored = monitor(participant, control=reference)

    for each in (reference, participant):
        monitored.add_block(cast("Participant", each), 0, samples_of(2, 4))

    assert [
        len(group) for group in monitored.observations(cast("Participant", participant)).peers
    ] == [4]


def test_what_a_candidate_computes_while_trusted_batches_run_is_no_excuse() -> None:
    excesses = []
    for step_ns in (0, 500_000):
        participant, reference = PlainParticipant(clock=Clock(step_ns)), PlainParticipant()
        monitored = monitor(participant, control=reference)
        monitored.add_block(cast("Participant", reference), 0, samples_of(2, 4))
        monitored.add_block(cast("Participant", participant), 0, samples_of(2, 4))
        largest = monitored.largest_batch(cast("Participant", participant), most=64)
        list(monitored.run_batches(cast("Participant", participant), 0, largest=largest))
        pairs = monitored.observations(cast("Participant", participant)).control_batches
        excesses.append({high.excess_ns - low.excess_ns for low, high in pairs})

    assert excesses == [{0.0}, {-500_000.0}]


def test_the_last_trial_takes_what_batches_were_planned_for_others() -> None:
    counts = []
    for takes_rest in (False, True):
        participant, reference = PlainParticipant(), PlainParticipant()
        monitored = monitor(participant, control=reference)
        monitored.add_block(cast("Participant", reference), 0, samples_of(2, 4))
        monitored.add_block(cast("Participant", participant), 0, samples_of(2, 4))
        batches = monitored.run_batches(
            cast("Participant", participant), 0, largest=64, takes_rest=takes_rest
        )
        counts.append(len(list(batches)))

    assert counts == [4, 12]


def test_on_a_card_batches_shorter_than_they_should_be_come_in_twice_as_many_pairs() -> None:
    counts = []
    for most in (64, 20):
        participant = PlainParticipant()
        monitored = monitor(participant, control=PlainParticipant(), on_cpu=False)
        judged = cast("Participant", participant)
        monitored.add_block(judged, 0, samples_of(2, 4))
        largest = monitored.largest_batch(judged, most=most)
        counts.append((largest, len(list(monitored.run_batches(judged, 0, largest=largest)))))

    assert counts == [(41, 4), (20, 8)]


def test_what_a_candidate_computes_while_the_control_is_looked_at_is_no_excuse() -> None:
    excesses = []
    for step_ns in (0, 500_000):
        participant, reference = PlainParticipant(clock=Clock(step_ns)), PlainParticipant()
        monitored = monitor(participant, control=reference)
        monitored.add_block(cast("Participant", participant), 0, samples_of(2, 4))
        (seen,) = monitored.observations(cast("Participant", participant)).controls
        excesses.append({each.excess_ns for each in seen})

    assert excesses == [{0.0}, {-500_000.0}]


def test_what_a_candidate_uses_while_the_reference_is_timed_stands_beside_its_samples() -> None:
    participant, reference = PlainParticipant(clock=Clock(700)), PlainParticipant()
    monitored = monitor(participant, control=reference)

    with monitored.others_idle(cast("Participant", reference)):
        pass
    monitored.add_block(cast("Participant", reference), 0, samples_of(2, 4))

    kept = monitored.observations(cast("Participant", participant))
    assert (len(kept.peers), kept.stirred) == (1, [700])


@pytest.mark.parametrize(
    ("replays_graphs", "is_told_late", "allowance_ns"),
    [
        (False, False, ALLOWANCE_ON_A_CARD_NS),
        (True, False, ALLOWANCE_ON_A_CARD_NS),
        (False, True, ALLOWANCE_ON_A_CARD_NS),
        (True, True, REPLAY_ALLOWANCE_NS),
    ],
)
def test_replays_that_cupti_records_may_take_longer_than_they_claim(
    replays_graphs: bool, is_told_late: bool, allowance_ns: float
) -> None:
    participant = PlainParticipant(replays_graphs=replays_graphs, is_told_late=is_told_late)
    monitored = monitor(participant, control=PlainParticipant(), on_cpu=False)

    observations = monitored.observations(cast("Participant", participant))

    assert observations.allowance_ns == allowance_ns
