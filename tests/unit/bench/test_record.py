from __future__ import annotations

import importlib.metadata
import json
import math
import subprocess
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from flashinfer_bench.bench.config import BenchmarkConfig
from flashinfer_bench.bench.outcomes import (
    Crashed,
    DatasetFault,
    Errors,
    JobNote,
    Misshapen,
    NotBuilt,
    OpponentFailed,
    Outcome,
    Skipped,
    TimedOut,
    Wrong,
)
from flashinfer_bench.bench.record import begin_run, record, samples_of
from flashinfer_bench.data import Evaluation, Trace
from tests.unit.bench.values import ATTEMPT, RUN, finished, job, passed, samples

if TYPE_CHECKING:
    from pathlib import Path

WRONG = Errors(0.5, 0.25, 0.75)
REUSED = JobNote("reused_buffer", "same memory")
STRIDED = JobNote("unusual_strides", "not contiguous")


def wrong(
    errors: Errors = WRONG, *violations: JobNote, notes: tuple[JobNote, ...] = (), log: str = ""
) -> Wrong:
    return Wrong(errors, "1 of 4 elements differ", violations, notes, log)


def misshapen(kind: Any) -> Misshapen:
    return Misshapen(kind, "output 'y' is odd", "said this")


def evaluation_of(outcome: Outcome, *, is_strict: bool = False) -> Evaluation:
    return record(finished(outcome), RUN, is_strict=is_strict).evaluation


def written(outcome: Outcome) -> dict[str, Any]:
    """The evaluation as it stands in the file."""
    return json.loads(record(finished(outcome), RUN).to_json())["evaluation"]


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        (passed(), "PASSED"),
        (wrong(), "INCORRECT_NUMERICAL"),
        (misshapen("shape"), "INCORRECT_SHAPE"),
        (misshapen("dtype"), "INCORRECT_DTYPE"),
        (Crashed("SIGSEGV", "log"), "RUNTIME_ERROR"),
        (TimedOut("too long", "log"), "TIMEOUT"),
        (NotBuilt("SyntaxError", "log"), "COMPILE_ERROR"),
    ],
)
def test_every_outcome_has_its_status_on_disk(outcome: Outcome, status: str) -> None:
    assert written(outcome)["status"] == status


@pytest.mark.parametrize(
    "outcome",
    [
        Skipped("no CUDA"),
        DatasetFault("the reference raised"),
        OpponentFailed(Crashed("SIGSEGV", "log")),
    ],
)
def test_what_is_nobodys_or_the_datasets_fault_leaves_no_trace(outcome: Outcome) -> None:
    assert record(finished(outcome), RUN) is None


@pytest.mark.parametrize(
    ("outcome", "parts"),
    [
        (passed(), (True, True)),
        (wrong(), (True, False)),
        (misshapen("shape"), (False, False)),
        (Crashed("x", ""), (False, False)),
        (TimedOut("x", ""), (False, False)),
        (NotBuilt("x", ""), (False, False)),
    ],
)
def test_correctness_and_performance_are_null_where_the_format_says_so(
    outcome: Outcome, parts: tuple[bool, bool]
) -> None:
    found = written(outcome)

    assert (found["correctness"] is not None, found["performance"] is not None) == parts


@pytest.mark.parametrize(
    ("outcome", "log"),
    [
        (passed(log="hello\n"), "hello\n"),
        (Crashed("SIGSEGV", "last words\n"), "SIGSEGV\nlast words"),
        (Crashed("SIGSEGV", ""), "SIGSEGV"),
        (TimedOut("too long", "before"), "too long\nbefore"),
        (NotBuilt("no", "compiler said"), "no\ncompiler said"),
        (misshapen("shape"), "output 'y' is odd\nsaid this"),
        (wrong(WRONG, log="printed"), "1 of 4 elements differ\nprinted"),
        (
            wrong(WRONG, JobNote("changed_inputs", "call 3")),
            "violation changed_inputs: call 3\n1 of 4 elements differ",
        ),
    ],
)
def test_the_log_begins_with_the_reason(outcome: Outcome, log: str) -> None:
    assert written(outcome)["log"] == log


def test_of_a_log_without_end_both_ends_survive() -> None:
    log = written(Crashed("begin" + "x" * 10_000_000, "last words"))["log"]

    assert log.startswith("beginxxx")
    assert log.endswith("xxx\nlast words")
    assert "characters left out" in log
    assert len(log) < 100_000


def test_a_trace_names_what_ran_and_where() -> None:
    done = finished(passed())

    trace = record(done, RUN)

    assert trace.definition == "increment"
    assert trace.workload == done.job.workload
    assert trace.solution == "candidate"
    assert trace.evaluation.environment.hardware == "Test CPU"
    assert trace.evaluation.environment.threads == 2
    assert trace.evaluation.environment.libs.keys() >= {"torch", "python", "flashinfer_bench"}
    assert datetime.fromisoformat(trace.evaluation.timestamp).utcoffset().total_seconds() == 0


@pytest.mark.parametrize("package", ["triton", "tilelang"])
def test_a_trace_names_the_kernel_compilers_that_are_installed(package: str) -> None:
    pytest.importorskip(package, reason="nothing to name")

    libs = record(finished(passed()), RUN).evaluation.environment.libs

    assert libs[package] == importlib.metadata.version(package)


@pytest.mark.parametrize(
    ("language", "is_marked"), [("triton", True), ("tilelang", True), ("python", False)]
)
@pytest.mark.parametrize("outcome", [passed(), Crashed("it raised", "")])
def test_what_stands_in_for_a_gpu_is_marked_however_it_ended(
    language: str, is_marked: bool, outcome: Outcome
) -> None:
    made = job()
    spec = made.solution.spec.model_copy(update={"language": language})
    stand_in = replace(made, solution=made.solution.model_copy(update={"spec": spec}))

    trace = record(finished(outcome, stand_in), RUN)

    assert trace.evaluation.provenance.interpreted is is_marked


def test_a_trace_can_be_traced_back_to_code_settings_and_inputs() -> None:
    made = job()

    provenance = record(finished(passed(), made), RUN).evaluation.provenance

    assert provenance.solution_hash == made.solution.hash()
    assert provenance.config_hash == made.config_hash
    assert provenance.seed == f"{ATTEMPT.key:016x}"
    assert provenance.attempt == ATTEMPT.number
    assert provenance.seed_given
    assert (provenance.run.id, provenance.run.label) == ("run-1", "nightly")


def test_a_trace_says_what_it_takes_to_replay_it() -> None:
    made = job(config=BenchmarkConfig(iterations=7, atol=0.5))

    provenance = record(finished(passed(), made), RUN).evaluation.provenance

    assert provenance.definition_hash == made.definition.hash()
    assert provenance.settings == {"iterations": 7, "atol": 0.5}


def test_every_trace_has_an_identity_of_its_own() -> None:
    first, second = (evaluation_of(passed()).provenance.trace_id for _ in range(2))

    assert first != second


def test_latencies_are_medians_of_all_samples_in_milliseconds() -> None:
    performance = evaluation_of(passed(samples([1e6, 3e6], [2e6, 9e6, 5e6]))).performance

    assert performance.latency_ms == 3.0
    assert performance.sample_count == 5
    assert performance.block_count == 2
    assert performance.quartiles_ms == (2.0, 5.0)
    assert performance.noise == pytest.approx(1.0)


def test_speedup_is_the_median_of_block_ratios() -> None:
    slownesses = [1, 6, 2, 7, 3, 8, 4, 9, 5, 10]
    slow = samples(*[[slowness * 4e6] for slowness in slownesses], is_reference=True)
    fast = samples(*[[slowness * 2e6] for slowness in slownesses[:-1]], [5e6])

    performance = evaluation_of(passed(slow, fast)).performance

    assert performance.speedup_factor == 2.0
    assert performance.speedup_interval == (2.0, 2.0)
    assert performance.reference_latency_ms == 22.0
    assert performance.reference_interval_ms == (8.0, 36.0)


def test_how_it_was_timed_is_recorded() -> None:
    performance = evaluation_of(passed()).performance

    assert performance.clock.name == "wall"
    assert performance.clock.overhead_ns == 61.0
    assert performance.clock.calls_per_sample == 3
    assert performance.latency_kind == "wall"
    assert performance.is_cold is False
    assert performance.peak_memory_bytes == 128
    assert performance.bytes_moved == 64


def test_a_reference_that_was_not_timed_is_absent_and_not_zero() -> None:
    performance = written(passed(samples(*[[1e6]] * 10)))["performance"]

    assert not [key for key in performance if "reference" in key or "speedup" in key]
    assert not [key for key in performance["clock"] if "reference" in key]


def test_blocks_too_few_for_an_interval_leave_it_out() -> None:
    performance = written(passed(samples([1e6], [2e6])))["performance"]

    assert "latency_interval_ms" not in performance
    assert performance["latency_ms"] == 1.5


def test_samples_that_claim_no_time_do_not_end_the_run() -> None:
    slow = samples(*[[4e6]] * 10, is_reference=True)
    nothing = samples(*[[0.0]] * 10)

    performance = evaluation_of(passed(slow, nothing)).performance

    assert performance.latency_ms == 0.0
    assert performance.speedup_factor is None


def test_error_maxima_are_recorded_and_a_full_match_needs_no_extra() -> None:
    correctness = written(passed(errors=Errors(0.5, 0.25, 1.0)))["correctness"]

    assert correctness == {
        "max_relative_error": 0.25,
        "max_absolute_error": 0.5,
        "extra": None,
    }


@pytest.mark.parametrize(("value", "text"), [(math.nan, "NaN"), (math.inf, "Infinity")])
def test_errors_that_are_no_number_are_written_as_words(value: float, text: str) -> None:
    trace = record(finished(wrong(Errors(value, value, 0.0))), RUN)
    correctness = json.loads(trace.to_json())["evaluation"]["correctness"]
    read_back = Trace.model_validate_json(trace.to_json())

    assert correctness["max_absolute_error"] == correctness["max_relative_error"] == text
    assert str(read_back.evaluation.correctness.max_absolute_error) == str(value)


def test_matches_precision_and_violations_go_into_extra() -> None:
    precision = {"solution_rms_error": 2.0, "reference_rms_error": 1.0, "ratio": 2.0}
    errors = Errors(0.5, 0.25, 0.75, precision)

    extra = written(wrong(errors, JobNote("failed_audit", "call 7")))["correctness"]["extra"]

    assert extra == {
        "matched_ratio": 0.75,
        "precision": precision,
        "violations": [{"code": "failed_audit", "evidence": "call 7"}],
    }


def test_notes_do_not_change_the_verdict() -> None:
    found = written(passed(notes=(REUSED, STRIDED)))

    assert found["status"] == "PASSED"
    assert [note["code"] for note in found["notes"]] == ["reused_buffer", "unusual_strides"]


def test_under_strict_rules_notes_are_failures() -> None:
    found = evaluation_of(passed(notes=(REUSED, STRIDED), log="printed"), is_strict=True)

    assert found.status == "INCORRECT_NUMERICAL"
    assert found.performance is None
    assert found.correctness is not None
    assert found.log == "notes count as failures here: reused_buffer, unusual_strides\nprinted"
    assert Evaluation.model_validate(found.to_dict()) == found


def test_under_strict_rules_a_clean_pass_passes() -> None:
    assert evaluation_of(passed(), is_strict=True).status == "PASSED"


def test_samples_are_kept_in_milliseconds_by_participant() -> None:
    outcome = passed(samples([4e6], [6e6], is_reference=True), samples([2e6], [3e6]))

    assert samples_of(outcome) == {"reference": [4.0, 6.0], "solution": [2.0, 3.0]}


@pytest.mark.parametrize("outcome", [wrong(), Crashed("x", ""), Skipped("x")])
def test_only_passed_jobs_have_samples(outcome: Outcome) -> None:
    assert samples_of(outcome) is None


@pytest.mark.parametrize(
    "outcome",
    [
        passed(samples(*[[4e6]] * 10, is_reference=True), samples(*[[2e6]] * 10)),
        passed(notes=(REUSED,)),
        wrong(WRONG, JobNote("changed_inputs", "call 3")),
        misshapen("dtype"),
        Crashed("SIGSEGV", "…"),
    ],
)
def test_a_trace_survives_the_file(outcome: Outcome) -> None:
    trace = record(finished(outcome), RUN)

    assert Trace.model_validate_json(trace.to_json()) == trace


def test_a_folder_without_git_has_no_revision(tmp_path: Path) -> None:
    run = begin_run(threads=1, label=None, root=tmp_path)

    assert (run.dataset_revision, run.is_dirty) == (None, None)


def git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=t", "-c", "user.email=t@example.invalid"]
    command = ["git", "-C", str(folder), *who, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_a_folder_under_git_has_its_commit_and_says_when_it_was_changed(tmp_path: Path) -> None:
    git(tmp_path, "init")
    git(tmp_path, "commit", "--allow-empty", "-m", "first")

    clean = begin_run(threads=1, label=None, root=tmp_path)
    (tmp_path / "new").touch()
    changed = begin_run(threads=1, label=None, root=tmp_path)

    assert clean.dataset_revision == changed.dataset_revision == git(tmp_path, "rev-parse", "HEAD")
    assert (clean.is_dirty, changed.is_dirty) == (False, True)


def test_two_runs_have_two_identities() -> None:
    first, second = (begin_run(threads=1, label=None, root=None) for _ in range(2))

    assert first.id != second.id


def test_how_a_task_is_weak_is_recorded_and_no_solutions_fault() -> None:
    outcome = passed()
    noted = msgspec.structs.replace(
        outcome, task_notes=(JobNote("constant_inputs", "all the same"),)
    )
    found = evaluation_of(noted, is_strict=True)

    assert found.status == "PASSED"
    assert found.notes == []
    assert [note.code for note in found.task_notes] == ["constant_inputs"]
    assert "task_notes" not in written(passed())


def test_a_trace_says_how_long_its_solution_took_to_build() -> None:
    done = replace(finished(passed()), build_ms=1234.5)

    made = record(done, RUN)

    assert made is not None
    assert made.evaluation is not None
    assert made.evaluation.performance is not None
    assert made.evaluation.performance.build_ms == 1234.5


@pytest.mark.parametrize("outcome", [passed(), Crashed("SIGSEGV", "log")], ids=["passed", "failed"])
def test_inputs_that_a_card_rewrote_are_told_however_the_job_ended(outcome: Outcome) -> None:
    on_host = finished(outcome)
    card = msgspec.structs.replace(
        on_host.device, rewrites_late=True, clock_version="4", clock_version_of_ranks="3"
    )
    on_card = replace(on_host, device=card)
    of_ranks = on_card.job.definition.model_copy(update={"world_size": 2})
    by_ranks = replace(on_card, job=replace(on_card.job, definition=of_ranks))

    told = [json.loads(record(each, RUN).to_json()) for each in (on_host, on_card, by_ranks)]

    provenances = [each["evaluation"]["provenance"] for each in told]
    assert "late_inputs" not in provenances[0]
    assert provenances[1]["late_inputs"] is True
    assert "late_inputs" not in provenances[2]
    timed = [each["evaluation"].get("performance") for each in told]
    if timed[0] is not None:
        assert [each["clock"]["version"] for each in timed] == ["1", "4", "3"]
