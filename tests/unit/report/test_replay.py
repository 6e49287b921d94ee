from __future__ import annotations

import math
from dataclasses import replace

import pytest

from flashinfer_bench.data import Correctness, Evaluation
from flashinfer_bench.report.replay import compare_evaluations, for_document
from tests.golden.test_tool_pages import evaluation, replayed


def agreement(recorded: Evaluation, now: Evaluation, **options: bool) -> dict[str, bool | None]:
    found = compare_evaluations(recorded, now, **{"has_same_inputs": True, **options})
    return {each.what: each.agrees for each in found}


def elsewhere(recorded: Evaluation) -> Evaluation:
    environment = recorded.environment.model_copy(update={"hardware": "NVIDIA H200"})
    return recorded.model_copy(update={"environment": environment})


def test_the_same_end_agrees_in_everything() -> None:
    found = agreement(evaluation(), evaluation())

    assert found == {
        "status": True,
        "max abs error": True,
        "max rel error": True,
        "latency": True,
        "speedup": None,
    }


def test_errors_must_be_the_same_to_the_last_bit() -> None:
    found = agreement(evaluation(error=0.001), evaluation(error=math.nextafter(0.001, 1)))

    assert found["max abs error"] is False


def test_no_number_is_the_same_as_no_number() -> None:
    nan = evaluation("INCORRECT_NUMERICAL", error=math.nan)

    assert agreement(nan, nan)["max abs error"] is True
    assert agreement(nan, evaluation("INCORRECT_NUMERICAL", error=1.0))["max abs error"] is False


@pytest.mark.parametrize(("latency_ms", "agrees"), [(0.25, True), (0.31, True), (0.33, False)])
def test_latencies_agree_nearly(latency_ms: float, agrees: bool) -> None:
    assert agreement(evaluation(), evaluation(latency_ms=latency_ms))["latency"] is agrees


def test_intervals_that_overlap_agree() -> None:
    recorded, now = evaluation(latency_ms=0.2), evaluation(latency_ms=0.4)
    wide = now.performance.model_copy(update={"latency_interval_ms": (0.1, 0.5)})

    assert agreement(recorded, now.model_copy(update={"performance": wide}))["latency"] is True


def test_on_other_hardware_only_the_status_is_compared() -> None:
    found = agreement(evaluation(), elsewhere(evaluation(error=0.5, latency_ms=9.0)))

    assert found["status"] is True
    assert {found["max abs error"], found["max rel error"], found["latency"]} == {None}


def test_without_the_recorded_inputs_errors_are_not_compared() -> None:
    found = agreement(evaluation(), evaluation(error=0.5), has_same_inputs=False)

    assert found["max abs error"] is None


def test_another_violation_is_a_difference() -> None:
    recorded = evaluation("INCORRECT_NUMERICAL")
    violations = {"violations": [{"code": "changed_inputs", "evidence": "x"}]}
    correctness = Correctness(max_absolute_error=0.001, max_relative_error=0.001, extra=violations)
    now = recorded.model_copy(update={"correctness": correctness})

    assert agreement(recorded, now)["violations"] is False
    assert agreement(now, now)["violations"] is True
    assert "violations" not in agreement(recorded, recorded)


def test_a_document_has_both_ends_of_long_logs_and_where_all_of_each_is() -> None:
    failed = evaluation("TIMEOUT", 1.0).model_copy(update={"log": "still at it\n" * 5_000})
    report = replace(replayed(failed, failed), log_file="now.log")

    told = for_document(report)

    assert "52000 characters left out; the whole log: in trace 4f1c9a" in told.recorded_log
    assert "52000 characters left out; the whole log: now.log" in told.log
    assert len(told.recorded_log + told.log) < 16_400
