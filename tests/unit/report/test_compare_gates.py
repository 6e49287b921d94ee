"""Gates: a small grammar, and what breaks each."""

from __future__ import annotations

import random
import xml.etree.ElementTree as ET
from typing import Any

import pytest

from flashinfer_bench.data.rows import TraceRow
from flashinfer_bench.errors import UsageError
from flashinfer_bench.report.compare.comparing import compare
from flashinfer_bench.report.compare.exports import junit, markdown
from flashinfer_bench.report.compare.gates import (
    GateResult,
    check_gates,
    exit_note,
    parse_gate,
)
from flashinfer_bench.report.compare.pages import compare_page, headline, ratio_text
from flashinfer_bench.report.compare.result import ComparisonReport, Kind
from flashinfer_bench.report.compare.sides import Side
from flashinfer_bench.report.failures import failure_of
from flashinfer_bench.stats.verdicts import verdict
from flashinfer_bench.text.tables import page_text
from tests.marks import mostly_full

from .rows import row


def _timed(latency_ms: float, workload: str, when: str, *, spread: float = 0.001) -> TraceRow:
    return row(
        latency_ms=latency_ms,
        latency_interval_ms=(latency_ms * (1 - spread), latency_ms * (1 + spread)),
        speedup=None,
        workload_uuid=workload,
        timestamp=when,
    )


def _against_reference(
    speedup: float, definition: str, when: str, reference_ms: float = 4.0
) -> TraceRow:
    return row(
        definition=definition,
        latency_ms=reference_ms / speedup,
        speedup=speedup,
        speedup_interval=(speedup * 0.98, speedup * 1.02),
        reference_latency_ms=reference_ms,
        reference_interval_ms=(reference_ms * 0.98, reference_ms * 1.02),
        timestamp=when,
    )


def _compared(old: list[TraceRow], new: list[TraceRow]) -> ComparisonReport:
    one, two = (
        Side(name, rows, lambda _: None, lambda _, __: {})
        for name, rows in (("a", old), ("b", new))
    )
    return compare(one, two, Kind.DATASETS)


REGRESSED = _compared(
    [
        _timed(1.0, "same", "1"),
        _timed(1.0, "slow", "1"),
        _timed(1.0, "broke", "1"),
        row(status="TIMEOUT", workload_uuid="fails"),
        _timed(1.0, "gone", "1"),
        _timed(1.0, "noisy", "1", spread=0.5),
    ],
    [
        _timed(1.0, "same", "2"),
        _timed(1.08, "slow", "2"),
        row(status="TIMEOUT", workload_uuid="broke"),
        row(status="TIMEOUT", workload_uuid="fails", timestamp="2"),
        row(status="COMPILE_ERROR", workload_uuid="new"),
        _timed(1.0, "noisy", "2", spread=0.5),
    ],
)


def _check(comparison: ComparisonReport, text: str) -> GateResult:
    (result,) = check_gates(comparison, [parse_gate(text)])
    return result


@pytest.mark.parametrize(
    ("gate", "broken_by"),
    [
        ("slower>3%", ["slow"]),
        ("slower>9%", []),
        ("failed", ["broke", "new"]),
        ("missing", ["gone"]),
        ("undecided", ["noisy"]),
    ],
)
def test_a_gate_is_broken_by_what_it_names(gate: str, broken_by: list[str]) -> None:
    result = _check(REGRESSED, gate)

    assert [each.place.workload for each in result.breaches if each.place] == broken_by
    assert result.holds is not bool(broken_by)


def test_all_jobs_together_may_be_slower_where_no_job_is_for_certain() -> None:
    old = [_against_reference(2.0, f"d{index}", "1") for index in range(30)]
    new = [_against_reference(1.85, f"d{index}", "2") for index in range(30)]

    result = _check(_compared(old, new), "slower>3%")

    assert [each.place for each in result.breaches] == [None]
    assert "all jobs together" in result.breaches[0].what


@pytest.mark.parametrize("comparisons", mostly_full([30, 100], 30))
def test_a_hundred_jobs_break_a_gate_by_chance_no_more_often_than_one(comparisons: int) -> None:
    """Runs of equal code that differ by 5%, which the references show."""
    draw = random.Random(1)
    broken, different = 0, 0
    for _ in range(comparisons):
        sides = [
            [
                _against_reference(
                    2.0 * draw.lognormvariate(0, 0.05),
                    f"d{index}",
                    when,
                    draw.lognormvariate(1, 0.05),
                )
                for index in range(100)
            ]
            for when in ("1", "2")
        ]
        comparison = _compared(*sides)
        broken += not _check(comparison, "slower>3%").holds
        different += any(job.verdict == "SLOWER" for job in comparison.jobs)

    assert broken <= comparisons * 0.05
    assert (
        different <= comparisons * 0.05
    )  # a job that is SLOWER fails in JUnit, so all of them count together


@pytest.mark.parametrize("gate", ["slower>3%", "undecided"])
def test_a_gate_with_nothing_to_look_at_does_not_hold(gate: str) -> None:
    result = _check(_compared([_timed(1.0, "w1", "1")], []), gate)

    assert not result.holds
    assert "nothing was compared" in result.breaches[0].what


def test_a_gate_on_times_without_any_interval_does_not_hold() -> None:
    bare = [row(speedup=None, workload_uuid="w", timestamp=when) for when in "12"]

    result = _check(_compared(bare[:1], bare[1:]), "slower>3%")

    assert not result.holds
    assert result.breaches[0].what == "nothing was compared: no job has an interval"


@pytest.mark.parametrize("text", ["slower > 3 %", "SLOWER>3%", " slower>3% "])
def test_spaces_and_case_do_not_matter(text: str) -> None:
    assert parse_gate(text).text == "slower>3%"


@pytest.mark.parametrize(
    "text", ["", "slower", "slower>=3%", "slower>3", "slower>-3%", "faster>3%", "fail"]
)
def test_anything_else_is_refused_with_the_grammar(text: str) -> None:
    with pytest.raises(UsageError, match="is no gate: write slower>3%"):
        parse_gate(text)


def test_junit_fails_the_jobs_that_break_a_gate() -> None:
    gates = check_gates(REGRESSED, [parse_gate("slower>3%"), parse_gate("failed")])

    suite = ET.fromstring(junit(REGRESSED, gates))

    failed = [case.get("name") for case in suite if case.find("failure") is not None]
    assert suite.get("tests") == str(len(suite)) == "10"
    assert suite.get("failures") == str(len(failed)) == "5"
    assert [name for name in failed if name and "slow" in name] != []


def _failures(comparison: ComparisonReport, gates: tuple[GateResult, ...]) -> dict[str, str]:
    suite = ET.fromstring(junit(comparison, gates))
    return {
        case.get("name", ""): each.get("message", "")
        for case in suite
        for each in case.iter("failure")
    }


def test_what_became_worse_fails_in_junit_whatever_the_gates() -> None:
    """A gate of 50% holds, and a page of failures that is green would hide the row that says SLOWER."""
    gates = check_gates(REGRESSED, [parse_gate("slower>50%")])

    (broke, slow) = sorted(_failures(REGRESSED, gates).values())

    assert gates[0].holds
    assert slow == "SLOWER: takes 8.0% longer"
    assert broke == "BROKE: PASSED -> TIMEOUT"


def test_all_jobs_together_that_are_slower_fail_in_junit() -> None:
    comparison = _compared(
        [_against_reference(2.0, f"d{index}", "1") for index in range(30)],
        [_against_reference(1.85, f"d{index}", "2") for index in range(30)],
    )

    assert _failures(comparison, ())["card"] == "SLOWER: takes 8.1% longer"


def test_one_line_explains_an_exit_code_of_zero_beside_what_became_worse() -> None:
    holding = check_gates(REGRESSED, [parse_gate("slower>50%")])
    broken = check_gates(REGRESSED, [parse_gate("slower>3%")])

    assert exit_note(REGRESSED, holding) == (
        "1 job SLOWER by 8.0%, not for certain beyond the gate's 50%; 1 job BROKE, which no gate asks about: "
        "exit code 0, but failed in JUnit"
    )
    assert exit_note(REGRESSED, broken) == ""
    assert page_text(compare_page(REGRESSED, holding, "a note")).endswith("a note")
    assert "a note" in markdown(REGRESSED, holding, "a note")
    assert exit_note(_compared([row()], [row(timestamp="2")]), ()) == ""


_ALL_GATES = ["slower>3%", "failed", "missing", "undecided", "changed-definition"]


@pytest.mark.parametrize("gate", _ALL_GATES)
def test_a_gate_that_saw_the_same_traces_alone_does_not_hold(gate: str) -> None:
    traces = [_timed(1.0, "w1", "1"), row(status="TIMEOUT", workload_uuid="w2")]
    comparison = _compared(traces, traces)

    result = _check(comparison, gate)

    assert not result.holds
    assert result.breaches[0].what == "nothing was compared: both sides hold the same traces"
    assert headline(comparison.overall[0], comparison.threshold).endswith(result.breaches[0].what)


@pytest.mark.parametrize("gate", ["slower>3%", "failed", "missing", "undecided"])
def test_a_gate_holds_where_some_jobs_were_measured_anew(gate: str) -> None:
    shared = _timed(1.0, "w1", "1")
    comparison = _compared([shared, _timed(1.0, "w2", "1")], [shared, _timed(1.0, "w2", "2")])

    assert _check(comparison, gate).holds
    assert "1 of 2 jobs not measured anew: the same trace on both sides" in comparison.remarks


def _judged(when: str, **changes: Any) -> TraceRow:
    return row(timestamp=when, **({"definition_hash": "d", "settings": {}} | changes))


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ({}, {"definition_hash": "e"}, "definition"),
        ({}, {"settings": {"rtol": 0.5}}, "rtol 0.01 -> 0.5"),
        ({"settings": {"required_matched_ratio": 0.9}}, {}, "required_matched_ratio 0.9 -> none"),
        ({"status": "TIMEOUT"}, {"definition_hash": "e"}, "definition"),
    ],
)
def test_a_job_that_is_judged_by_something_else_is_named_and_breaks_its_gate(
    old: dict[str, Any], new: dict[str, Any], what: str
) -> None:
    comparison = _compared([_judged("1", **old)], [_judged("2", **new)])

    result = _check(comparison, "changed-definition")

    assert not result.holds
    assert result.breaches[0].what == f"judged by something else: {what}"
    assert f"judged by something else on the new side: d1 ({what}; 1 job)" in comparison.remarks
    assert what in page_text(compare_page(comparison))


def test_other_counts_of_samples_do_not_change_what_is_right() -> None:
    comparison = _compared([_judged("1")], [_judged("2", settings={"iterations": 7})])

    assert _check(comparison, "changed-definition").holds


def test_traces_that_do_not_say_what_judged_them_do_not_satisfy_the_gate() -> None:
    comparison = _compared([row(timestamp="1")], [row(timestamp="2")])

    assert "no two traces say what judged them" in (
        _check(comparison, "changed-definition").breaches[0].what
    )


def test_junit_says_why_a_job_fails() -> None:
    reason = failure_of("INCORRECT_NUMERICAL", "output 'y': 3 of 8 elements differ\nmore", ())
    old = Side("a", [row()], lambda _: None, lambda _, __: {})
    wrong = [row(status="INCORRECT_NUMERICAL", timestamp="2")]
    new = Side("b", wrong, lambda _: None, lambda _, __: {}, lambda _: reason)
    comparison = compare(old, new, Kind.DATASETS)
    said = "PASSED -> INCORRECT_NUMERICAL: tolerance: output 'y': 3 of 8 elements differ"

    gates = check_gates(comparison, [parse_gate("failed")])

    assert f"failed: {said}" in _failures(comparison, gates).values()
    assert f"BROKE: {said}" in _failures(comparison, ()).values()
    assert "tolerance: output 'y': 3 of 8 elements differ" in page_text(compare_page(comparison))


def test_names_of_other_people_cannot_break_out_of_a_report() -> None:
    name = "a|b`<script>\x1b[31m\x00\ufffe\ud800]]> @user #7 ~~x~~"
    odd = _compared([row(solution=name)], [row(solution=name, status="TIMEOUT")])

    said = markdown(odd)

    assert "<script>" not in said
    assert "@user" not in said
    assert "#7" not in said
    assert "~~" not in said
    assert "a\\|b\\`&lt;script&gt;" in said
    assert ET.fromstring(junit(odd)).find("testcase") is not None


@pytest.mark.parametrize(
    ("latency_ms", "spread", "shown"), [(1.48, 0.05, "SLOWER"), (1.07, 0.01, "UNDECIDED")]
)
def test_the_interval_that_is_shown_lies_where_the_verdict_says(
    latency_ms: float, spread: float, shown: str
) -> None:
    """Rounded to its own width it would reach to 1.0, or end at 0.98."""
    comparison = _compared(
        [_timed(1.0, "w", "1", spread=spread)], [_timed(latency_ms, "w", "2", spread=spread)]
    )
    (job,) = comparison.jobs

    text = ratio_text(job, comparison.threshold)

    low, high = (float(end) for end in text.split("[")[1].rstrip("]").split(","))
    assert verdict((low, high)) == job.verdict == shown
