from __future__ import annotations

import json
import math
from typing import Any

import pytest
from pydantic import ValidationError

from flashinfer_bench.data import (
    Correctness,
    Evaluation,
    EvaluationStatus,
    Note,
    Performance,
    Provenance,
    Trace,
    utc_timestamp,
)
from flashinfer_bench.data.wording import parse_timestamp

ENVIRONMENT = {"hardware": "H100", "libs": {}}
FLAT = {
    "status": "PASSED",
    "max_relative_error": 1.2e-5,
    "max_absolute_error": 3.4e-4,
    "latency_ms": 0.023,
    "reference_latency_ms": 0.045,
    "speedup_factor": 1.96,
    "hardware": "NVIDIA_A100_80GB",
    "timestamp": "2026-01-09T10:30:00Z",
}


def evaluation(status: str, **parts: Any) -> Evaluation:
    return Evaluation.model_validate(
        {"status": status, "environment": ENVIRONMENT, "timestamp": "t"} | parts
    )


def test_the_example_lines_of_the_schema_come_back_byte_for_byte(build: Any) -> None:
    for line in (build.workload_line, build.trace_line):
        assert Trace.model_validate_json(line).to_json() == line


def test_kinds_of_trace_are_told_apart(build: Any) -> None:
    workload_only = Trace.model_validate_json(build.workload_line)
    passed = Trace.model_validate_json(build.trace_line)
    failed = build.trace(status="TIMEOUT")
    unfinished = passed.model_copy(update={"evaluation": None})

    assert [each.is_workload_trace() for each in (workload_only, passed, failed)] == [
        True,
        False,
        False,
    ]
    assert [each.is_successful() for each in (workload_only, passed, failed, unfinished)] == [
        False,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize("status", list(EvaluationStatus))
def test_parts_fit_the_status(status: EvaluationStatus) -> None:
    has_correctness = status in {"PASSED", "INCORRECT_NUMERICAL"}
    has_performance = status == "PASSED"
    right = {
        "correctness": {} if has_correctness else None,
        "performance": {} if has_performance else None,
    }

    evaluation(status, **right)

    for part, value in right.items():
        wrong = right | {part: {} if value is None else None}
        with pytest.raises(ValidationError, match=part):
            evaluation(status, **wrong)


def test_parts_are_checked_in_files_too(build: Any) -> None:
    line = build.trace_line.replace("PASSED", "TIMEOUT")

    with pytest.raises(ValidationError, match="must be absent with status TIMEOUT"):
        Trace.model_validate_json(line)


@pytest.mark.parametrize(
    ("value", "text"), [(math.nan, '"NaN"'), (math.inf, '"Infinity"'), (0.5, "0.5")]
)
def test_errors_that_are_not_finite_are_written_as_words(value: float, text: str) -> None:
    correctness = Correctness(max_relative_error=value, max_absolute_error=0)

    assert correctness.to_json() == (
        f'{{"max_relative_error":{text},"max_absolute_error":0.0,"extra":null}}'
    )
    assert repr(Correctness.model_validate_json(correctness.to_json())) == repr(correctness)


@pytest.mark.parametrize("word", ["NaN", "nan", "Infinity", "infinity", "inf"])
def test_words_for_numbers_are_read_in_any_case(word: str) -> None:
    correctness = Correctness.model_validate({"max_relative_error": word})

    assert not math.isfinite(correctness.max_relative_error)


@pytest.mark.parametrize("value", [-1, "-Infinity", "much", None])
def test_an_error_is_a_number_not_below_zero(value: object) -> None:
    with pytest.raises(ValidationError):
        Correctness.model_validate({"max_relative_error": value})


@pytest.mark.parametrize("field", ["latency_ms", "reference_latency_ms", "speedup_factor"])
@pytest.mark.parametrize("value", [-1, math.nan])
def test_times_are_not_below_zero(field: str, value: float) -> None:
    with pytest.raises(ValidationError):
        Performance.model_validate({field: value})


def test_what_was_not_timed_is_absent() -> None:
    performance = Performance(latency_ms=1.5)

    assert performance.reference_latency_ms is None
    assert performance.to_json() == '{"latency_ms":1.5}'


def test_the_flat_form_is_written_nested() -> None:
    flat = Evaluation(**FLAT)  # type: ignore[arg-type]

    written = json.loads(flat.to_json())

    assert written == {
        "status": "PASSED",
        "environment": {"hardware": "NVIDIA_A100_80GB", "libs": {}},
        "timestamp": "2026-01-09T10:30:00Z",
        "log": "",
        "correctness": {
            "max_relative_error": 1.2e-5,
            "max_absolute_error": 3.4e-4,
            "extra": None,
        },
        "performance": {
            "latency_ms": 0.023,
            "reference_latency_ms": 0.045,
            "speedup_factor": 1.96,
        },
    }
    assert Evaluation.model_validate_json(flat.to_json()) == flat


def test_the_flat_form_needs_only_what_the_status_needs() -> None:
    failed = Evaluation(status="TIMEOUT", hardware="cpu", timestamp="t")  # type: ignore[call-arg]

    assert failed.correctness is None
    assert failed.environment.hardware == "cpu"


def test_the_flat_form_works_inside_a_trace(build: Any) -> None:
    trace = Trace(definition="d", workload=build.workload(), solution="s", evaluation=FLAT)

    assert trace.is_successful()


@pytest.mark.parametrize(
    "nested", [{"environment": ENVIRONMENT}, {"correctness": {}}, {"performance": {}}]
)
def test_flat_and_nested_do_not_mix(nested: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="mixed"):
        Evaluation.model_validate(FLAT | nested)


def test_additive_keys_come_back_and_absent_ones_are_not_written(build: Any) -> None:
    bare = evaluation("TIMEOUT")
    full = evaluation(
        "PASSED",
        correctness={"extra": {"violations": [{"code": "a", "evidence": "b"}]}},
        performance={
            "latency_ms": 1,
            "speedup_interval": [1.5, 2.5],
            "clock": {
                "name": "wall",
                "version": "1",
                "overhead_ns": 30.5,
                "calls_per_sample": 4,
            },
            "latency_kind": "wall",
            "is_cold": False,
        },
        notes=[{"code": "reused_buffer", "evidence": "y"}],
        provenance=build.provenance(run={"id": "r", "dirty": True}),
        environment=ENVIRONMENT | {"device": {"uuid": "u", "name": "H100"}, "threads": 4},
    )

    assert "notes" not in bare.to_json()
    assert "provenance" not in bare.to_json()
    assert "device" not in bare.to_json()
    assert "null" not in full.performance.to_json()  # type: ignore[union-attr]
    assert Evaluation.model_validate_json(full.to_json()) == full
    assert full.notes == [Note(code="reused_buffer", evidence="y")]


@pytest.mark.parametrize("seed", ["ff", "0x000000000000ff", "00000000000000FF", 255])
def test_a_seed_is_sixteen_digits(build: Any, seed: object) -> None:
    with pytest.raises(ValidationError):
        Provenance.model_validate(build.provenance(seed=seed))


def test_hardware_is_named() -> None:
    with pytest.raises(ValidationError):
        evaluation("TIMEOUT", environment={"hardware": ""})


def test_unknown_keys_and_statuses_are_refused() -> None:
    with pytest.raises(ValidationError):
        evaluation("TIMEOUT", latency=1)
    with pytest.raises(ValidationError):
        evaluation("SLOW")


def test_timestamps_are_utc_and_comparable() -> None:
    written = utc_timestamp()

    assert written.endswith("+00:00")
    assert parse_timestamp(written) is not None
    assert parse_timestamp("2026-01-09T10:30:00Z") == parse_timestamp("2026-01-09T10:30:00")
    assert parse_timestamp("yesterday") is None
