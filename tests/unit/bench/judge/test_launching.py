"""Graphs, hot caches after cold ones, and energy: whole jobs on plain numbers."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import pytest

from flashinfer_bench.bench.outcomes import Crashed, Energy, Passed, Skipped, Suspect
from flashinfer_bench.bench.protocol import (
    Go,
    Keep,
    OpenBlock,
    OpenTrial,
    OpenWorkload,
    Prepare,
    RecordGraphs,
    Spin,
    UseCache,
)
from flashinfer_bench.bench.timing import device_work
from tests.unit.bench.judge.fake_links import (
    FakeLink,
    Machine,
    Numbers,
    evaluate,
    pair,
    quick_rules,
)

GRAPHS = {"launch": "graph"}
BOTH = {"is_cold": True, "is_hot_too": True, "cache": "both"}


@dataclass
class SteadyCounter:
    """A device of constant power, whose counter moves every 25 ms."""

    machine: Machine
    watts: float
    source: str = "nvml"

    def read_j(self) -> float:
        return self.watts * (self.machine.now_ns // 25_000_000) * 0.025


def asked(link: FakeLink, *kinds: type) -> list[Any]:
    return [each for each in link.asked if isinstance(each, kinds)]


def test_a_sample_is_replayed_only_from_graphs_recorded_before_its_seed_was_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    links = pair()

    outcome = evaluate(*links, rules=quick_rules(**GRAPHS), device="cuda", monkeypatch=monkeypatch)

    assert isinstance(outcome, Passed), outcome
    for link in links:
        assert asked(link, OpenWorkload)[0].replays_graphs
        recorded = prepared = 0
        for request in asked(link, OpenTrial, OpenBlock, RecordGraphs, Prepare, Go):
            match request:
                case OpenTrial() | OpenBlock():
                    recorded = 0
                case RecordGraphs(count=count):
                    recorded, prepared = count, 0  # what was prepared before is not replayed
                case Prepare(count=count):
                    prepared = count
                case Go():
                    assert 0 < prepared <= recorded


def test_calls_are_recorded_anew_where_another_process_used_the_card_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    links = pair()

    evaluate(
        *links,
        rules=quick_rules(**GRAPHS, iterations=60),
        device="cuda",
        monkeypatch=monkeypatch,
    )

    for link in links:
        requests = asked(link, Keep, RecordGraphs, Go)
        kept = [index for index, each in enumerate(requests) if isinstance(each, Keep)]
        assert kept or link.is_reference
        for index in kept:
            following = requests[index + 1 : index + 2]
            assert all(isinstance(each, RecordGraphs) for each in following)


def test_graphs_are_recorded_on_inputs_that_no_sample_has(monkeypatch: pytest.MonkeyPatch) -> None:
    links = pair()

    evaluate(*links, rules=quick_rules(**GRAPHS), device="cuda", monkeypatch=monkeypatch)

    of_samples = {each.seed for each in asked(links[1], Prepare)}
    of_graphs = [each.seed for each in asked(links[1], RecordGraphs)]
    assert of_graphs
    assert not of_samples.intersection(of_graphs)
    assert len(set(of_graphs)) == len(of_graphs)


def test_without_graphs_nothing_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    links = pair()

    evaluate(*links, monkeypatch=monkeypatch)

    assert not asked(links[0], RecordGraphs, UseCache)
    assert not asked(links[1], RecordGraphs, UseCache)


def test_a_solution_that_cannot_be_recorded_fails_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reference, candidate = pair()
    candidate.unrecordable = "operation not permitted when stream is capturing"

    outcome = evaluate(
        reference, candidate, rules=quick_rules(**GRAPHS), device="cuda", monkeypatch=monkeypatch
    )

    assert isinstance(outcome, Crashed)
    assert outcome.participant == candidate.name
    assert "--launch graph" in outcome.explanation
    assert candidate.unrecordable in outcome.explanation


def test_a_reference_that_cannot_be_recorded_is_nobodys_fault_and_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reference, candidate = pair()
    reference.unrecordable = "it reads a number from the device"

    outcome = evaluate(
        reference, candidate, rules=quick_rules(**GRAPHS), device="cuda", monkeypatch=monkeypatch
    )

    assert isinstance(outcome, Skipped)
    assert "--no-profile-baseline" in outcome.reason


def test_a_reference_that_is_only_a_control_runs_its_own_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reference, candidate = pair()
    reference.is_timed, reference.unrecordable = False, "it reads a number from the device"

    outcome = evaluate(
        reference, candidate, rules=quick_rules(**GRAPHS), device="cuda", monkeypatch=monkeypatch
    )

    assert isinstance(outcome, Passed), outcome
    assert not asked(reference, RecordGraphs)


def test_hot_caches_are_timed_after_cold_ones_in_trials_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    links = pair()

    outcome = evaluate(*links, rules=quick_rules(**BOTH), monkeypatch=monkeypatch)

    assert isinstance(outcome, Passed), outcome
    for link in links:
        kinds = [
            each.is_cold if isinstance(each, UseCache) else "trial"
            for each in asked(link, UseCache, OpenTrial)
        ]
        assert kinds == [True, "trial", False, "trial"]
    assert [len(each.blocks_ns) for each in outcome.samples] == [10, 10]
    assert [len(each.blocks_ns) for each in outcome.hot_samples] == [10, 10]


def test_caches_are_emptied_between_inputs_and_the_order_to_go_until_they_are_hot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    links = pair()

    def evict() -> None:
        for link in links:
            link.asked.append("emptied")

    evaluate(*links, rules=quick_rules(**BOTH), evict=evict, monkeypatch=monkeypatch)

    for link in links:
        now_hot = link.asked.index(asked(link, UseCache)[1])
        cold, hot = link.asked[:now_hot], link.asked[now_hot:]
        before = [cold[index - 1] for index, each in enumerate(cold) if isinstance(each, Go | Spin)]
        assert len(before) > 10
        assert set(before) == {"emptied"}
        assert "emptied" not in hot


def test_what_is_computed_while_caches_are_emptied_is_hidden_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reference, candidate = pair(Numbers(call_ns=10_000))

    def evict() -> None:
        reference.machine.now_ns += 50_000_000
        if isinstance(candidate.asked[-1], Prepare):  # it is its turn
            candidate.cpu.used_ns += 2_000_000

    rules = quick_rules(is_cold=True, cache="cold", iterations=30)
    outcome = evaluate(reference, candidate, rules=rules, evict=evict, monkeypatch=monkeypatch)

    assert isinstance(outcome, Suspect), outcome
    assert "hidden_work" in [each.code for each in outcome.violations]


def test_each_half_has_its_own_times(monkeypatch: pytest.MonkeyPatch) -> None:
    reference, candidate = pair()
    cold, hot = Numbers(call_ns=400_000), Numbers(call_ns=200_000)

    class Warmed(FakeLink):
        def tell(self, request: Any, descriptors: Any = ()) -> None:
            if isinstance(request, UseCache):
                self.numbers = cold if request.is_cold else hot
            super().tell(request, descriptors)

    warmed = Warmed(candidate.name, candidate.machine)

    outcome = evaluate(reference, warmed, rules=quick_rules(**BOTH), monkeypatch=monkeypatch)

    assert isinstance(outcome, Passed), outcome
    assert set(itertools.chain(*outcome.samples[1].blocks_ns)) == {400_000}
    assert set(itertools.chain(*outcome.hot_samples[1].blocks_ns)) == {200_000}


@pytest.mark.parametrize("lies_when_cold", [True, False])
def test_who_hides_work_in_one_half_is_suspect(
    lies_when_cold: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference, candidate = pair()
    honest, liar = Numbers(call_ns=400_000), Numbers(call_ns=400_000, claimed_ns=100_000)

    class HalfHonest(FakeLink):
        def tell(self, request: Any, descriptors: Any = ()) -> None:
            if isinstance(request, UseCache):
                self.numbers = liar if request.is_cold is lies_when_cold else honest
            super().tell(request, descriptors)

    made = HalfHonest(candidate.name, candidate.machine)

    outcome = evaluate(reference, made, rules=quick_rules(**BOTH), monkeypatch=monkeypatch)

    assert isinstance(outcome, Suspect), outcome


def test_no_two_samples_of_both_halves_have_the_same_inputs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    links = pair()

    evaluate(*links, rules=quick_rules(**BOTH, num_trials=2), monkeypatch=monkeypatch)

    trials = [each.seed for each in asked(links[1], OpenTrial)]
    assert trials == [0, 1, 2, 3]
    per_trial = itertools.groupby(
        asked(links[1], OpenTrial, Prepare), lambda each: isinstance(each, OpenTrial)
    )
    for is_opening, requests in per_trial:
        seeds = [each.seed for each in requests]
        assert is_opening or len(set(seeds)) == len(seeds)


def test_the_energy_of_a_call_is_power_times_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    links = pair(Numbers(call_ns=50_000))
    counter = SteadyCounter(links[0].machine, watts=400.0)

    outcome = evaluate(
        *links, rules=quick_rules(energy=True), counter=counter, monkeypatch=monkeypatch
    )

    assert isinstance(outcome, Passed), outcome
    assert isinstance(outcome.energy, Energy)
    assert outcome.energy.missing is None
    assert outcome.energy.call_mj == pytest.approx(400.0 * 50e-6 * 1e3, rel=0.01)
    assert len(outcome.energy.segments_mj) == 10
    assert outcome.energy.seconds == pytest.approx(2.3, abs=0.1)


def test_a_machine_without_a_counter_says_why_and_repeats_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    links = pair()

    outcome = evaluate(
        *links, rules=quick_rules(energy=True), counter="no RAPL here", monkeypatch=monkeypatch
    )

    assert isinstance(outcome, Passed)
    assert outcome.energy == Energy(missing="no RAPL here")


def test_a_counter_that_hardly_moves_measures_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    links = pair()
    counter = SteadyCounter(links[0].machine, watts=0.0)

    outcome = evaluate(
        *links, rules=quick_rules(energy=True), counter=counter, monkeypatch=monkeypatch
    )

    assert isinstance(outcome, Passed)
    assert outcome.energy is not None
    assert "moved 0 times" in (outcome.energy.missing or "")


def test_energy_is_measured_only_where_it_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    links = pair()
    counter = SteadyCounter(links[0].machine, watts=400.0)

    outcome = evaluate(*links, counter=counter, monkeypatch=monkeypatch)

    assert isinstance(outcome, Passed)
    assert outcome.energy is None
    assert asked(links[1], Go)


def test_clocks_hide_the_launches_of_a_sample_and_of_a_whole_batch_while_batches_are_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    links = pair()
    links[0].call_host_ns, links[1].call_host_ns = 9_000, 4_000

    rules = quick_rules(num_trials=2)
    outcome = evaluate(*links, rules=rules, device="cuda", monkeypatch=monkeypatch)

    assert isinstance(outcome, Passed), outcome
    reference, candidate = (
        [each.host_ns for each in asked(link, OpenBlock) if each.host_ns is not None]
        for link in links
    )
    calls = outcome.samples[0].calls_per_sample
    assert reference == [calls * 9_000.0] * 2  # in each trial
    largest = max(each.count for each in asked(links[1], Prepare))
    assert largest > calls
    hidden = candidate[1] / 4_000
    assert candidate == [calls * 4_000.0, hidden * 4_000.0] * 2
    assert largest <= hidden
    controls = [each for each in asked(links[0], Spin) if each.host_ns is not None]
    assert controls
    assert {each.host_ns for each in controls} == {calls * 4_000.0}  # as in the samples beside it


def test_a_batch_has_no_more_calls_than_the_longest_spin_hides(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    links = pair()
    links[0].call_host_ns = links[1].call_host_ns = 4_000
    monkeypatch.setattr(device_work, "_LONGEST_SPIN_NS", 320_000)

    outcome = evaluate(*links, rules=quick_rules(), device="cuda", monkeypatch=monkeypatch)

    assert isinstance(outcome, Passed), outcome
    assert 16 < max(each.count for each in asked(links[1], Prepare)) <= 20


def test_a_reference_whose_launches_nobody_could_hide_is_hidden_like_the_solution(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    links = pair()
    links[1].call_host_ns = 4_000

    outcome = evaluate(*links, rules=quick_rules(), device="cuda", monkeypatch=monkeypatch)

    assert isinstance(outcome, Passed), outcome
    reference = [each.host_ns for each in asked(links[0], OpenBlock) if each.host_ns is not None]
    assert reference == [outcome.samples[0].calls_per_sample * 4_000.0]


@pytest.mark.parametrize(
    ("solution_ns", "reference_ns", "of_reference"),
    [(50_000, 4_000_000, 3), (4_000_000, 50_000, 12)],
)
def test_a_slow_reference_is_timed_less_often_and_in_each_block(
    solution_ns: int, reference_ns: int, of_reference: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    links = pair(Numbers(call_ns=solution_ns), reference=Numbers(call_ns=reference_ns))

    outcome = evaluate(*links, rules=quick_rules(iterations=120), monkeypatch=monkeypatch)

    assert isinstance(outcome, Passed), outcome
    reference, candidate = ([len(block) for block in each.blocks_ns] for each in outcome.samples)
    assert candidate == [12] * 10
    assert reference == [of_reference] * 10
