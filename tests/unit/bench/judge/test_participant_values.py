"""What is found of a participant, and what it says its calls took."""

from __future__ import annotations

import math

from flashinfer_bench.bench.judge.findings import Findings
from flashinfer_bench.bench.judge.timings import Reported, Timings
from flashinfer_bench.judging import JudgeVerdict


def reported(*calls_ns: float) -> list[Reported]:
    return [Reported(each, host_ns=each / 10) for each in calls_ns]


def test_nothing_is_known_before_the_first_call() -> None:
    timings = Timings()

    assert (timings.recent_ns, timings.latency_ns) == (math.inf, math.inf)
    assert timings.take_host_ns() is None
    assert Findings().is_good


def test_the_first_half_of_warm_up_which_compiles_says_nothing() -> None:
    timings = Timings()

    timings.warmed_up(reported(9e9, 9e9, 30.0, 20.0, 10.0))

    assert timings.recent_ns == 20.0
    assert timings.take_host_ns() == 3.0
    assert timings.take_host_ns() is None


def test_without_warm_up_what_a_call_takes_is_not_known() -> None:
    timings = Timings()

    timings.warmed_up([])

    assert timings.recent_ns == math.inf


def test_the_last_block_is_recent_and_the_latency_is_of_all() -> None:
    timings = Timings()
    timings.warmed_up(reported(500.0))

    timings.add_block(reported(10.0, 20.0, 30.0))
    timings.add_block(reported(100.0))

    assert timings.recent_ns == 100.0
    assert timings.latency_ns == 25.0


def test_a_forgotten_block_takes_its_host_times_along() -> None:
    timings = Timings()
    timings.add_block(reported(10.0, 20.0))
    timings.add_block(reported(300.0))

    timings.forget_block()

    assert timings.blocks_ns == [(10.0, 20.0)]
    assert timings.take_host_ns() == 2.0


def test_what_was_not_hidden_says_how_long_a_spin_must_be_and_not_how_long_the_host_was_kept() -> (
    None
):
    timings = Timings()

    timings.warmed_up([Reported(5e6, host_ns=2e6, is_hidden=False), Reported(4e6, host_ns=1e6)])

    assert timings.host_ns == [1e6]
    assert timings.take_host_ns() == 1e6  # the first half of warm-up says nothing

    timings.add_block([Reported(5e6, host_ns=2e6, is_hidden=False), Reported(4e6, host_ns=1e6)])

    assert timings.host_ns == [None, 1e6]
    assert timings.take_host_ns() == 2e6
    assert timings.take_host_ns() is None


def test_a_forgotten_block_takes_its_counts_of_launches_along() -> None:
    timings = Timings()
    timings.add_block([Reported(10.0, launches=2.0)])
    timings.add_block([Reported(10.0, launches=900.0)])

    timings.forget_block()

    assert timings.launches == [2.0]


def test_forgotten_blocks_are_all_gone_and_warm_up_counts_again() -> None:
    timings = Timings()
    timings.warmed_up(reported(7.0))
    timings.add_block(reported(10.0))

    timings.forget_blocks()

    assert (timings.blocks_ns, timings.host_ns, timings.recent_ns) == ([], [], 7.0)


def test_of_each_violation_the_first_evidence_is_told_and_not_all_of_it() -> None:
    findings = Findings()

    findings.report("implausible", "x" * 600)
    findings.report("implausible", "later")

    assert not findings.is_good
    (note,) = findings.wrong("", participant="candidate-1").violations
    assert note.evidence == "x" * 500 + " …"


def test_verdicts_are_merged_to_the_worst() -> None:
    findings = Findings()

    findings.merge(JudgeVerdict(is_accepted=True, max_absolute=2.0))
    findings.merge(JudgeVerdict(is_accepted=False, max_absolute=1.0, explanation="off by one"))
    wrong = findings.wrong(findings.verdict.explanation, participant="candidate-1")

    assert not findings.is_good
    assert (wrong.errors.max_absolute, wrong.explanation) == (2.0, "off by one")
    assert (wrong.participant, wrong.violations) == ("candidate-1", ())


def test_only_unusual_calls_that_failed_are_a_note() -> None:
    failed = {"zeros": "failed: NaN"}
    unusual = {"large": "passed", "tiny": "skipped: no"} | failed
    findings = Findings(unusual=unusual, unusual_faults=failed)

    (note,) = findings.notes()

    assert (note.code, note.evidence) == ("unusual_draw", "zeros: failed: NaN")
    assert findings.errors().extra == {"unusual": findings.unusual}


def test_shared_buffers_and_strides_are_notes() -> None:
    findings = Findings(shares_buffers=True, strided_elements=3)

    assert [note.code for note in findings.notes()] == ["reused_buffer", "unusual_strides"]
    assert findings.is_good
