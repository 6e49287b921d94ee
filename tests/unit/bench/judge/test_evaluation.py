"""Whole jobs on plain numbers: the evaluation, its participants and its monitor, and no process."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from itertools import groupby
from typing import Any

import pytest
import torch

from flashinfer_bench.bench.judge.calls import CallId
from flashinfer_bench.bench.judge.participant import MOST_SETTLINGS, SETTLING_S, Participant
from flashinfer_bench.bench.outcomes import (
    Aborted,
    Crashed,
    Decision,
    Passed,
    Suspect,
    TimedOut,
    Wrong,
)
from flashinfer_bench.bench.protocol import (
    Go,
    Keep,
    OpenBlock,
    OpenTrial,
    OpenWorkload,
    Prepare,
    Spin,
)
from flashinfer_bench.tensors.conditions import Conditions
from tests.unit.bench.judge.fake_links import (
    HONEST,
    RIGHT,
    WRONG,
    FakeLink,
    FakeOracle,
    FakeShared,
    Machine,
    Numbers,
    Roofline,
    evaluate,
    pair,
    quick_rules,
)

CALLS_NS = (2_000, 10_000, 50_000, 400_000)
"""Calls of these lengths are timed many, several, or one at a time."""
SHORTEST_SAMPLE_NS = {"cpu": 30_000, "cuda": 25_000}
BLOCKS, SAMPLES_A_BLOCK = 10, 1
CANDIDATE = "candidate-2"


def codes(decision: Decision) -> list[str]:
    """The rules that were broken, or do not fit; none where the job passed."""
    if isinstance(decision, Passed):
        return []
    assert isinstance(decision, Suspect | Wrong), decision
    return [each.code for each in decision.violations]


class Sample:
    """How long the samples are that calls of this length are timed in."""

    def __init__(self, call_ns: int, device: str) -> None:
        self.call_ns = call_ns
        self.count = -(-SHORTEST_SAMPLE_NS[device] // call_ns)
        self.claimed_ns = self.count * call_ns


Limit = Callable[[Sample], int]
Change = Callable[[Numbers, int], Numbers]


def more(*fields: str) -> Change:
    """Add so much to each of these figures."""
    return lambda numbers, extra: numbers.more(**dict.fromkeys(fields, extra))


def a_tenth(sample: Sample) -> int:
    return sample.claimed_ns // 10


# What may be added to an honest candidate's samples before it is suspect: one nanosecond more, and it is.
ON_A_CPU: dict[str, tuple[str, Change, Limit]] = {
    "preparing, by the clock": ("early_compute", more("preparing_ns"), a_tenth),
    "preparing, by processor time": ("early_compute", more("preparing_cpu_ns"), a_tenth),
    "in a pause": ("early_compute", more("pause_cpu_ns"), lambda _: 20_000),
    "until the calls returned": ("hidden_work", more("waking_ns"), a_tenth),
    "until outputs were committed": ("hidden_work", more("committing_ns"), a_tenth),
    "a little before and a little after": (
        "hidden_work",
        more("preparing_cpu_ns", "waking_ns"),
        lambda sample: sample.claimed_ns // 20,
    ),
    "processor time while it ran": ("hidden_work", more("running_cpu_ns"), a_tenth),
    "children that stay": (
        "hidden_work",
        more("born_ns"),
        lambda sample: SAMPLES_A_BLOCK * sample.claimed_ns // 10 + 500_000,
    ),
    "children that nobody met": (
        "hidden_work",
        more("unmet_ns"),
        lambda sample: SAMPLES_A_BLOCK * sample.claimed_ns * 11 // 10 + 20_000,
    ),
    "while others are timed": ("background_compute", more("background_ns"), lambda _: 1_000_000),
}
ON_A_CARD: dict[str, tuple[str, Change, Limit]] = {
    "in a pause": ("early_compute", more("pause_cpu_ns"), lambda _: 20_000),
    "preparing": (
        "early_compute",
        more("preparing_ns"),
        lambda sample: 150_000 + HONEST.preparing_ns * 3 // 10 + sample.claimed_ns // 10,
    ),
    "until the calls returned": (
        "implausible",
        more("waking_ns"),
        lambda sample: 15_000 + sample.claimed_ns // 10 + 1_000 * sample.count,
    ),
    "until outputs were committed": (
        "hidden_work",
        more("committing_ns"),
        lambda sample: (
            150_000
            + sample.claimed_ns // 10
            + 1_000 * sample.count
            + HONEST.committing_ns * 3 // 10
        ),
    ),
    "while others are timed": ("background_compute", more("background_ns"), lambda _: 1_000_000),
}
IN_BATCHES: dict[str, tuple[str, Change]] = {
    "processor time while a call was prepared": (
        "early_compute",
        more("preparing_cpu_per_call_ns"),
    ),
    "a call's time by the judge's clock": ("implausible", more("call_ns")),
}


def with_extra(
    change: Change, extra: int, *, call_ns: int, device: str, monkeypatch: pytest.MonkeyPatch
) -> Decision:
    numbers = replace(HONEST, call_ns=call_ns)
    changed = change(numbers, extra)
    has_pauses = changed.pause_cpu_ns != HONEST.pause_cpu_ns  # few samples have one
    rules = quick_rules(iterations=200 if has_pauses else BLOCKS * SAMPLES_A_BLOCK)
    links = pair(changed, reference=numbers)
    return evaluate(*links, rules=rules, device=device, monkeypatch=monkeypatch)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("call_ns", [*CALLS_NS, 25_000, 5_000_000])
def test_an_honest_candidate_passes(
    call_ns: int, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = replace(HONEST, call_ns=call_ns)
    slower = replace(HONEST, call_ns=2 * call_ns)

    found = evaluate(*pair(numbers, reference=slower), device=device, monkeypatch=monkeypatch)

    assert isinstance(found, Passed)
    by_name = {each.participant: each for each in found.samples}
    assert set(by_name[CANDIDATE].blocks_ns) == {(float(call_ns),) * SAMPLES_A_BLOCK}
    assert set(by_name["reference-1"].blocks_ns) == {(2.0 * call_ns,) * SAMPLES_A_BLOCK}
    assert len(by_name[CANDIDATE].blocks_ns) == 10


@pytest.mark.parametrize("call_ns", CALLS_NS)
@pytest.mark.parametrize("name", ON_A_CPU)
def test_on_a_cpu_each_rule_has_its_edge(
    name: str, call_ns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, change, limit = ON_A_CPU[name]
    most = limit(Sample(call_ns, "cpu"))

    def found(extra: int) -> list[str]:
        made = with_extra(change, extra, call_ns=call_ns, device="cpu", monkeypatch=monkeypatch)
        return codes(made)

    assert found(most) == []
    assert found(most + 1) == [code]


@pytest.mark.parametrize("call_ns", CALLS_NS)
@pytest.mark.parametrize("name", ON_A_CARD)
def test_on_a_card_each_rule_has_its_edge(
    name: str, call_ns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, change, limit = ON_A_CARD[name]
    most = limit(Sample(call_ns, "cuda"))

    def found(extra: int) -> list[str]:
        made = with_extra(change, extra, call_ns=call_ns, device="cuda", monkeypatch=monkeypatch)
        return codes(made)

    assert found(most) == []
    assert found(most + 1) == [code]


@pytest.mark.parametrize("call_ns", CALLS_NS)
@pytest.mark.parametrize("name", IN_BATCHES)
def test_in_batches_each_rule_has_its_edge(
    name: str, call_ns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, change = IN_BATCHES[name]
    numbers = replace(HONEST, call_ns=call_ns)

    def found(extra: int) -> list[str]:
        of_batches = replace(change(numbers, extra), claimed_ns=call_ns)
        links = pair(numbers, of_batches=of_batches, reference=numbers)
        return codes(evaluate(*links, monkeypatch=monkeypatch))

    assert found(call_ns // 10) == []
    assert found(call_ns // 10 + 1) == [code]


@pytest.mark.parametrize("cores", [1, 2, 8])
def test_a_candidate_may_keep_its_cores_busy_and_a_tenth_more(
    cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = replace(HONEST, call_ns=400_000)
    most = cores * 440_000 - 400_000

    def found(extra: int) -> list[str]:
        links = pair(numbers.more(running_cpu_ns=extra), reference=numbers)
        return codes(evaluate(*links, cores=cores, monkeypatch=monkeypatch))

    assert found(most) == []
    assert found(most + 1) == ["hidden_work"]


def test_on_a_noisy_machine_who_computes_while_nobody_is_timed_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def found(used_ns: int) -> list[str]:
        reference, candidate = pair(replace(HONEST, silence_cpu_ns=used_ns))
        reference.spin_noise_ns = lambda number: 300_000 * (number % 7 == 0)
        return codes(evaluate(reference, candidate, monkeypatch=monkeypatch))

    assert found(1_500_000) == []
    assert found(1_500_001) == ["background_compute"]


@pytest.mark.parametrize("call_ns", CALLS_NS)
def test_no_claim_is_longer_than_what_the_judge_waited(
    call_ns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The calls' own time, waking up, one hundredth of both, and a tenth of a millisecond."""
    waited_ns = call_ns + HONEST.waking_ns
    most = waited_ns + waited_ns // 100 + 100_000
    numbers = replace(HONEST, call_ns=call_ns)

    def found(claimed_ns: int) -> Decision:
        rules = quick_rules(is_audited=False, calls_per_sample=1, warmup_runs=1)
        slow = replace(HONEST, call_ns=400_000)  # or more calls would go into a sample
        links = pair(replace(numbers, claimed_ns=claimed_ns), reference=slow)
        return evaluate(*links, rules=rules, monkeypatch=monkeypatch)

    assert isinstance(found(most), Passed)
    too_long = found(most + 1)
    assert isinstance(too_long, Wrong)
    assert codes(too_long) == ["implausible"]


def test_a_call_that_takes_no_time_at_all_is_a_violation_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = evaluate(*pair(replace(HONEST, claimed_ns=0)), monkeypatch=monkeypatch)

    assert isinstance(found, Wrong)
    assert codes(found) == ["implausible"]


def test_a_time_that_no_device_can_reach_is_suspect(monkeypatch: pytest.MonkeyPatch) -> None:
    found = evaluate(*pair(), roofline=Roofline("too fast"), monkeypatch=monkeypatch)

    assert isinstance(found, Suspect)
    assert [(each.code, each.evidence) for each in found.violations] == [
        ("implausible", "too fast")
    ]
    assert found.participant == CANDIDATE


@pytest.mark.parametrize("factor", [2, 3, 10])
def test_who_claims_a_part_of_the_time_is_suspect(
    factor: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    liar = replace(HONEST, call_ns=100_000, claimed_ns=100_000 // factor)
    reference = replace(HONEST, call_ns=100_000)

    found = codes(evaluate(*pair(liar, reference=reference), monkeypatch=monkeypatch))

    assert found[0] == "implausible"
    assert "hidden_work" in found


def test_without_audit_nobody_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    links = pair(HONEST.more(waking_ns=1_000_000))

    found = evaluate(*links, rules=quick_rules(is_audited=False), monkeypatch=monkeypatch)

    assert isinstance(found, Passed)
    assert not any(isinstance(each, Spin) for each in links[0].asked)


def test_a_wrong_output_of_the_checked_call_ends_the_timing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Shared(FakeShared):
        wrong_reads = frozenset({1})

    links = pair()

    found = evaluate(*links, shared=Shared, monkeypatch=monkeypatch)

    assert isinstance(found, Wrong)
    assert found.explanation.startswith("trial 0, call 0: ")
    assert codes(found) == []
    assert sum(isinstance(each, Go) for each in links[1].asked) == 1


@pytest.mark.parametrize("read", [2, 5, 9])
def test_a_wrong_output_of_a_timed_call_is_a_failed_audit(
    read: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Shared(FakeShared):
        wrong_reads = frozenset({read})

    found = evaluate(*pair(), shared=Shared, monkeypatch=monkeypatch)

    assert isinstance(found, Wrong)
    assert codes(found) == ["failed_audit"]


@pytest.mark.parametrize("ring", [1, 4, 8, 20, 40])
def test_outputs_in_a_ring_of_buffers_are_right_until_they_are_overwritten(
    ring: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches have more calls than samples: of a ring that a sample does not fill, outputs may be gone there."""
    reference, candidate = pair()
    candidate.ring = ring

    class Shared(FakeShared):
        def read(self, slot: int, device: Any) -> list[torch.Tensor]:
            return [WRONG if slot < candidate.overwritten else RIGHT]

    found = evaluate(
        reference,
        candidate,
        rules=quick_rules(num_trials=8),
        shared=Shared,
        monkeypatch=monkeypatch,
    )

    assert isinstance(found, Passed), found
    assert [each.code for each in found.notes] == ["reused_buffer"]


@pytest.mark.parametrize(
    ("ending", "looked_at"),
    [
        (Crashed("ValueError", participant=CANDIDATE), [-15]),
        (TimedOut("no answer", participant=CANDIDATE), [-15, 2, 1, 0, 0]),
        (Aborted(CANDIDATE, "its process ended"), [-15, 2, 1, 0, 0]),
        (Aborted("reference-1", "its process ended"), []),
    ],
)
def test_who_fails_is_held_against_the_reference_on_the_same_inputs(
    ending: Decision, looked_at: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One call for who says so; all of the trial, the newest first, for a process that ended or hangs."""
    reference, candidate = pair()
    candidate.raises_at, candidate.ending = 3, ending
    rules, oracle = quick_rules(is_audited=False), FakeOracle()

    found = evaluate(reference, candidate, rules=rules, oracle=oracle, monkeypatch=monkeypatch)

    assert found == ending
    assert [call for _, call, _ in oracle.legal] == looked_at


class Disturbed:
    """A machine on which the blocks with these numbers are disturbed."""

    def __init__(self, *blocks: int) -> None:
        self._blocks, self._count = blocks, 0

    def before(self) -> None:
        self._count += 1

    def after(self) -> str | None:
        return "heat" if self._count in self._blocks else None

    def has_company(self) -> bool:
        return False

    def gauges(self) -> dict[str, float]:
        return {}


def test_a_disturbed_block_is_timed_again_on_other_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    links, conditions = pair(), Conditions(Disturbed(2, 3, 6), 2)

    found = evaluate(*links, conditions=conditions, monkeypatch=monkeypatch)

    assert isinstance(found, Passed)
    assert all(len(each.blocks_ns) == 10 for each in found.samples)
    assert found.machine.blocks_discarded == 2
    assert found.machine.disturbed == {"heat": 1}
    seeds = [each.seed for each in links[1].asked if isinstance(each, Prepare)]
    assert len(set(seeds)) == len(seeds)


def test_blocks_of_too_few_calls_are_forgotten_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    slow, quick = replace(HONEST, call_ns=400_000), replace(HONEST, call_ns=2_000)
    machine = Machine()
    links = [
        FakeLink("reference-1", machine, quick, is_reference=True, at_first=slow),
        FakeLink(CANDIDATE, machine, quick, at_first=slow),
    ]

    found = evaluate(*links, monkeypatch=monkeypatch)

    assert isinstance(found, Passed)
    assert found.machine.begun_again == 1
    assert all(each.calls_per_sample > 1 for each in found.samples)
    assert all(len(each.blocks_ns) == 10 for each in found.samples)


def test_opponents_are_both_judged_and_the_first_fault_names_its_participant(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine()
    reference = FakeLink("reference-1", machine, is_reference=True)
    honest = FakeLink(CANDIDATE, machine)
    hiding = FakeLink("candidate-3", machine, HONEST.more(waking_ns=50_000))

    found = evaluate(reference, honest, hiding, monkeypatch=monkeypatch)
    both = evaluate(reference, honest, FakeLink("candidate-3", machine), monkeypatch=monkeypatch)

    assert isinstance(found, Suspect)
    assert found.participant == "candidate-3"
    assert isinstance(both, Passed)
    assert both.opponent_errors == both.errors


def test_every_trial_opens_with_fresh_pools_and_a_checked_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    links = pair()

    evaluate(*links, rules=quick_rules(num_trials=3), monkeypatch=monkeypatch)

    asked = [each for each in links[1].asked if isinstance(each, OpenTrial | Prepare)]
    opened = [index for index, each in enumerate(asked) if isinstance(each, OpenTrial)]
    assert len(opened) == 3
    assert [asked[index + 1].count for index in opened] == [1, 1, 1]


def test_a_candidate_cannot_tell_samples_from_warm_up_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """But for moves between blocks, all it is asked for looks alike: prepare, go, and now and then keep."""
    links = pair()

    evaluate(*links, rules=quick_rules(is_audited=False, iterations=40), monkeypatch=monkeypatch)

    kinds = [type(each) for each in links[1].asked if not isinstance(each, OpenBlock)]
    assert kinds[:2] == [OpenWorkload, OpenTrial]
    assert kinds[2:] == [Prepare, Go, Keep, *[Prepare, Go] * 72]


def test_a_job_that_does_not_fit_is_skipped_before_anybody_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    links: Any = pair()
    oracle = FakeOracle()
    (plan,) = oracle.inputs
    huge = type(plan.tensor)(plan.tensor.name, (1 << 38,), plan.tensor.dtype)
    oracle.inputs = (type(plan)(huge, plan.source),)

    found = evaluate(*links, oracle=oracle, monkeypatch=monkeypatch)

    assert type(found).__name__ == "Skipped"
    assert links[1].asked == []


def test_a_block_is_taken_with_coins_that_were_tossed_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reference, candidate = pair()
    events: list[object] = []
    toss, ask = Participant.toss, candidate.ask

    def noted_toss(
        participant: Participant, trial: int, call: CallId, purpose: str
    ) -> random.Random:
        if participant.link.name == candidate.name and purpose in {"pause", "slots", "fast"}:
            events.append(call)
        return toss(participant, trial, call, purpose)

    def noted_ask(request: Any, *rest: Any) -> Any:
        if isinstance(request, Prepare):
            events.append("prepare")
        return ask(request, *rest)

    monkeypatch.setattr(Participant, "toss", noted_toss)
    monkeypatch.setattr(candidate, "ask", noted_ask)

    rules = quick_rules(iterations=40)
    assert isinstance(evaluate(reference, candidate, rules=rules, monkeypatch=monkeypatch), Passed)
    of_blocks = [each for each in events if each == "prepare" or each.kind == "timed"]  # type: ignore[attr-defined]  # a call
    runs = [
        (kind, len(list(group))) for kind, group in groupby(of_blocks, lambda e: e == "prepare")
    ]
    tossed = [length for is_prepared, length in runs if not is_prepared]
    assert len(tossed) >= 10
    assert min(tossed[:10]) >= 2 * 4  # all of a block of four samples: a pause, and what is checked


def test_a_second_look_has_inputs_made_twice_and_begins_at_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was made first is of no call; a process that still computes is waited for, 20 ms at most."""
    quiet, busy = pair(), pair(replace(HONEST, silence_cpu_ns=100_000))
    rules = quick_rules(is_audited=False, prepares_twice=True)

    found = evaluate(*quiet, rules=rules, monkeypatch=monkeypatch)
    evaluate(*busy, rules=rules, monkeypatch=monkeypatch)

    assert isinstance(found, Passed)
    prepared = [each.seed for each in quiet[1].asked if isinstance(each, Prepare)]
    unused, used = prepared[::2], prepared[1::2]
    waited_ns = (MOST_SETTLINGS - 1) * round(SETTLING_S * 1e9)
    assert len(set(prepared)) == len(prepared)
    assert min(unused) > max(used)
    assert busy[1].machine.now_ns - quiet[1].machine.now_ns == waited_ns * len(used)
