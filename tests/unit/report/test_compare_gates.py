"""Gates: a small grammar, and what breaks each."""

from __future__ import annotations

import random
import xml.etree.ElementTree as ET

import pytest

from flashinfer_bench.data.rows import TraceRow
from flashinfer_bench.errors import UsageError
from flashinfer_bench.report.compare.comparing import compare
from flashinfer_bench.report.compare.exports import junit, markdown
from flashinfer_bench.report.compare.gates import GateResult, check_gates, parse_gate
from flashinfer_bench.report.compare.pages import ratio_text
from flashinfer_bench.report.compare.result import ComparisonReport, Kind
from flashinfer_bench.report.compare.sides import Side
from flashinfer_bench.stats.verdicts import verdict
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
    assert suite.get("tests") == str(len(suite)) == "9"
    assert suite.get("failures") == str(len(failed)) == "5"
    assert [name for name in failed if name and "slow" in name] != []


def test_a_job_that_is_slower_fails_in_junit_whatever_the_gates() -> None:
    """A gate of 50% holds, and a page of failures that is green would hide the row that says SLOWER."""
    gates = check_gates(REGRESSED, [parse_gate("slower>50%")])

    suite = ET.fromstring(junit(REGRESSED, gates))

    (failed,) = (case for case in suite if case.find("failure") is not None)
    assert "slow" in (failed.get("name") or "")
    assert gates[0].holds
    assert [each.get("message") for each in failed] == ["SLOWER: takes 8.0% longer", None]


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
