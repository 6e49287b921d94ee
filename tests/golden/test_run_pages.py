"""What `run` and `check` say at their end, from recorded traces."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from flashinfer_bench.cli import screen
from flashinfer_bench.cli.measure.run import document
from flashinfer_bench.data import TraceSet
from flashinfer_bench.judging.diagnosis import (
    CAUSES,
    AxisPattern,
    Diagnosis,
    ErrorBin,
    RepeatedCall,
    SuspectedCause,
    WrongRegion,
    WrongValues,
)
from flashinfer_bench.report.check import CheckReport, check_page
from flashinfer_bench.report.edges import EdgeReport, EdgeResult, edges_page
from flashinfer_bench.report.failures import failure_of
from flashinfer_bench.report.integration import (
    IntegrationReport,
    IntegrationStep,
    integration_page,
)
from flashinfer_bench.report.jobs import JobResult, job_line, job_result, solution_results
from flashinfer_bench.report.run import Fault, RunReport, SkippedJob, job_counts, run_page
from flashinfer_bench.text.tables import page_text

Compare = Callable[[str, str], None]
GPU = "NVIDIA H200"


@pytest.fixture
def jobs(dataset: Path) -> tuple[JobResult, ...]:
    trace_set = TraceSet.from_path(dataset)
    results = []
    for trace in (trace for traces in trace_set.traces.values() for trace in traces):
        solution = trace_set.get_solution(trace.solution or "")
        if solution is not None:
            results.append(job_result(trace, solution))
    return tuple(result for result in results if result.hardware == GPU)


def _run_report(jobs: tuple[JobResult, ...], *, is_complete: bool = True) -> RunReport:
    return RunReport(
        jobs=jobs,
        solutions=solution_results(jobs),
        skipped=(
            SkippedJob("gemm_n8", "gemm_n8_cuda", "gemm_n8-w1", "there is no CUDA device"),
            SkippedJob("gemm_n8", "gemm_n8_cuda", "gemm_n8-w2", "there is no CUDA device"),
        ),
        dataset_faults=(Fault("topk_k2", "topk_k2-w1", "the reference raised ValueError: k > n"),),
        planned=len(jobs) + 1,
        done_before=3,
        failed_before=1,
        elapsed_s=61.4,
        is_complete=is_complete,
        saved_to=("dataset/traces",),
        next_command="flashinfer-bench report summary --local dataset",
    )


def test_each_job_has_a_line(jobs: tuple[JobResult, ...], compare: Compare) -> None:
    compare("run-lines.txt", "".join(f"{job_line(job)}\n" for job in jobs))


def test_a_run_ends_with_a_page(jobs: tuple[JobResult, ...], compare: Compare) -> None:
    compare("run-page.txt", page_text(run_page(_run_report(jobs), lists_failures=False)))


def test_a_quiet_run_lists_failures(jobs: tuple[JobResult, ...], compare: Compare) -> None:
    compare("run-page-quiet.txt", page_text(run_page(_run_report(jobs), lists_failures=True)))


def test_a_stopped_run_says_so(jobs: tuple[JobResult, ...], compare: Compare) -> None:
    report = _run_report(jobs[:2], is_complete=False)

    compare("run-page-stopped.txt", page_text(run_page(report, lists_failures=False)))


def test_a_check_says_what_notes_saw(jobs: tuple[JobResult, ...], compare: Compare) -> None:
    noted = tuple(
        replace(job, notes=("unusual_draw",), note_evidence={"unusual_draw": evidence})
        for job, evidence in zip(
            [job for job in jobs if job.is_passed][:3],
            ("large: output 'y' differs", "zeros: output 'y' is NaN", "large: output 'y' differs"),
            strict=True,
        )
    )

    compare("check-page-notes.txt", page_text(check_page(_check_report("gemm_n8", noted))))


@pytest.mark.parametrize(
    ("name", "definition"),
    [("check-page.txt", "gemm_n8"), ("check-page-violation.txt", "rmsnorm_h8")],
)
def test_a_check_shows_logs_of_failures_once_and_violations_apart(
    jobs: tuple[JobResult, ...], compare: Compare, name: str, definition: str
) -> None:
    found = tuple(job for job in jobs if job.definition == definition)

    compare(name, page_text(check_page(_check_report(definition, found))))


def test_a_check_says_what_is_suspected_first(
    jobs: tuple[JobResult, ...], compare: Compare, capsys: pytest.CaptureFixture[str]
) -> None:
    log = "trial 0, call 0: output 'y': 44 of 300 elements differ\n"
    bad = next(job for job in jobs if job.definition == "gemm_n8" and not job.is_passed)
    failure = failure_of("INCORRECT_NUMERICAL", log, (), DIAGNOSIS)
    bad = replace(bad, status="INCORRECT_NUMERICAL", log=log, failure=failure)
    report = _check_report("gemm_n8", (bad,))

    compare("check-page-cause.txt", page_text(check_page(report)))
    counts = job_counts((bad,), (), ())
    screen.show_json({"schema_version": 1, "exit_code": 1, "counts": counts, "check": report})
    compare("check-cause.json", capsys.readouterr().out)


@pytest.mark.parametrize("name", ["run", "check"])
def test_a_document_is_what_it_was(
    name: str, jobs: tuple[JobResult, ...], compare: Compare, capsys: pytest.CaptureFixture[str]
) -> None:
    counts = job_counts(jobs[-3:], (), ())
    check = {"counts": counts, "check": _check_report("relu_h8", jobs[-3:])}
    check = {"schema_version": 1, "exit_code": 1, **check}
    run = document(_run_report(jobs[:1] + jobs[-3:]), exit_code=1)

    screen.show_json({"run": run, "check": check}[name])

    compare(f"{name}.json", capsys.readouterr().out)


def test_a_verdict_of_integration_names_lines(
    compare: Compare, capsys: pytest.CaptureFixture[str]
) -> None:
    line = "kernel.py:2: `if x[0].item() > 1e9:`: .item() reads a value on the host"
    steps = (
        IntegrationStep("answers", "holds"),
        IntegrationStep("full graph", "refused", (line,)),
        IntegrationStep("capture", "not tried", ("CUDA graphs need a CUDA device",)),
    )
    report = IntegrationReport(
        "kernel.py", "gemm_n8", "cpu", "inductor", accepted=False, steps=steps
    )

    screen.show_json({"schema_version": 1, "integration": report}, 1)

    compare("integration.json", capsys.readouterr().out)
    compare("integration-page.txt", page_text(integration_page(report)))


def test_the_smallest_failing_edge_case_is_named(
    compare: Compare, capsys: pytest.CaptureFixture[str]
) -> None:
    log = "ValueError: needs whole tiles\n"
    results = (
        EdgeResult("n = 0 (empty)", "size", {"n": 0}, "PASSED"),
        EdgeResult("n = 17 (one past 16)", "size", {"n": 17}, "RUNTIME_ERROR", log),
        EdgeResult("x padded: shape [7, 8], strides [12, 1]", "stride", {"n": 7}, "PASSED"),
    )
    report = EdgeReport(
        "kernel.py",
        "relu_n8",
        accepted=False,
        results=results,
        smallest_failing_size=results[1],
        left_out={"n = 1 (one)": "axes {'n': 1} violate 'n != 1'"},
    )

    screen.show_json({"schema_version": 1, "edges": report}, 1)

    compare("edges.json", capsys.readouterr().out)
    compare("edges-page.txt", page_text(edges_page(report)))


DIAGNOSIS = Diagnosis(
    values=WrongValues(
        output="y",
        shape=(300,),
        dtype="float32",
        place="trial 0, call 0",
        elements=300,
        wrong=44,
        unwritten=44,
        zeros=0,
        nans=44,
        infinities=0,
        region=WrongRegion(
            "last", "the last 44 of 300 along n", (AxisPattern("n", 300, "last", 44, 256, 300),)
        ),
        histogram=(ErrorBin(0.0, 256),),
        correlation=1.0,
        relative_rms=0.0,
        factor=None,
        factor_spread=None,
        repeated=RepeatedCall(0),
    ),
    causes=(
        SuspectedCause(
            "dropped_last_block",
            0.97,
            "the last 44 of 300 along n: never written",
            CAUSES["dropped_last_block"].look_at,
            {"blank_share": 1.0},
        ),
    ),
    tried=0,
    left_out=0,
)


def _check_report(definition: str, jobs: tuple[JobResult, ...]) -> CheckReport:
    return CheckReport(
        kernel="kernel.py",
        definition=definition,
        language="python",
        entry_point="kernel.py::run",
        calling_style="returns",
        num_trials=1,
        iterations=20,
        warmup_runs=3,
        jobs=jobs,
        skipped=(),
        dataset_faults=(),
    )
