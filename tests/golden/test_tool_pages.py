"""What `ab`, `doctor` and `replay` say, from fixed findings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from flashinfer_bench.bench.sandbox.isolation import SandboxLevel, SandboxMeasure
from flashinfer_bench.bench.tools.doctor_report import (
    ClockState,
    DeviceState,
    DoctorReport,
    Folder,
    Installation,
    Isolation,
    Language,
    MachineState,
    Process,
    Tool,
)
from flashinfer_bench.bench.tools.noise import NoiseFloor
from flashinfer_bench.cli import screen
from flashinfer_bench.data import (
    ClockInfo,
    Correctness,
    DeviceInfo,
    Environment,
    Evaluation,
    Performance,
)
from flashinfer_bench.report.ab import AbFailure, AbReport, AbWorkload, ab_page
from flashinfer_bench.report.doctor import doctor_page
from flashinfer_bench.report.replay import (
    ReplayReport,
    compare_evaluations,
    evaluation_failure,
    replay_page,
)
from flashinfer_bench.report.run import Fault, SkippedJob
from flashinfer_bench.text.tables import page_text

Compare = Callable[[str, str], None]

AB = AbReport(
    old="kernel.cpp@HEAD~1",
    new="kernel.cpp",
    is_same_code=False,
    remarks=(),
    definition="rmsnorm_h8",
    hardware="AMD EPYC",
    threshold=0.02,
    rounds=12,
    iterations=10,
    warmup_runs=5,
    seed="00000000000000ff",
    workloads=(
        AbWorkload(
            "w1",
            {"rows": 4},
            0.0125,
            0.0101,
            1.2376,
            (1.21, 1.26),
            "FASTER",
            1e-6,
            2e-3,
            12,
            120,
            2,
        ),
        AbWorkload(
            "w2", {"rows": 64}, 0.25, 0.2512, 0.995, (0.988, 1.003), "SAME", 1e-6, 1e-6, 12, 120, 1
        ),
        AbWorkload("w3", {}, 1.5, 1.4, None, None, "UNDECIDED", 0.0, 0.0, 1, 1, 1),
    ),
    overall_ratio=1.1,
    overall_interval=(1.05, 1.15),
    overall_verdict="FASTER",
    failures=(),
    skipped=(),
    dataset_faults=(),
)
DOCTOR = DoctorReport(
    can_run=True,
    languages=(
        Language("python", None, None, None),
        Language("triton", None, None, "interpreted on a CPU"),
        Language(
            "cpp", "tvm-ffi", "no C++ compiler on PATH; install one:\n  apt-get install g++", None
        ),
    ),
    devices=(
        DeviceState("cpu", "AMD EPYC", None),
        DeviceState("cuda:0", "NVIDIA H200", "out of reach"),
    ),
    tools=(Tool("python", "3.11.7", "/usr/bin/python3"), Tool("nvcc", None, None)),
    folders=(
        Folder("build cache", "/cache", exists=True, is_writable=True, free_bytes=71_500_000_000),
        Folder("dataset", "/data", exists=False, is_writable=False, free_bytes=None),
    ),
    clock=ClockState(resolution_ns=1.0, smallest_step_ns=40.0, overhead_ns=61.0),
    noise=NoiseFloor("worker processes", 1.0012, (0.991, 1.008), 0.0234, 6, 0.0712),
    noise_failure=None,
    machine=MachineState(
        cores=2,
        usable_cpus=4,
        cpu_quota=1.5,
        memory_bytes=24_000_000_000,
        available_bytes=20_000_000_000,
        load=(0.5, 1.25, 2.0),
        busiest=(Process("ffmpeg", 1.37), Process("python3", 0.28)),
        governor="powersave",
        has_turbo=True,
        huge_pages="madvise",
    ),
    isolation=Isolation(
        has_user_namespaces=True,
        landlock_abi=7,
        has_seccomp_filters=False,
        levels=(
            SandboxLevel(
                "process",
                None,
                (
                    SandboxMeasure("files", "reads little", None),
                    SandboxMeasure("network", "opens no socket", "no seccomp filters"),
                ),
            ),
            SandboxLevel("container", "bubblewrap is not installed", ()),
        ),
        children_uncounted="Permission denied",
    ),
    installation=Installation("/site/flashinfer_bench", ("flashinfer-bench 0.1.0",), ("/other",)),
    advice=("for cpp (tvm-ffi): install one:\n  apt-get install g++", "stop ffmpeg"),
)


def evaluation(
    status: str = "PASSED", error: float = 0.001, latency_ms: float = 0.25
) -> Evaluation:
    has_errors = status in {"PASSED", "INCORRECT_NUMERICAL"}
    return Evaluation(
        status=status,
        environment=Environment(
            hardware="AMD EPYC", device=DeviceInfo(uuid="cpu", name="AMD EPYC"), threads=2
        ),
        timestamp="2026-04-30T10:11:12+00:00",
        log="" if status == "PASSED" else "trial 0, call 0: 1 of 8 elements differ",
        correctness=Correctness(max_absolute_error=error, max_relative_error=error)
        if has_errors
        else None,
        performance=Performance(
            latency_ms=latency_ms,
            latency_interval_ms=(latency_ms * 0.99, latency_ms * 1.01),
            reference_latency_ms=0.5,
            speedup_factor=0.5 / latency_ms,
            clock=ClockInfo(name="wall", version="1", overhead_ns=60, calls_per_sample=1),
        )
        if status == "PASSED"
        else None,
    )


def replayed(recorded: Evaluation, now: Evaluation, *warnings: str) -> ReplayReport:
    compared = compare_evaluations(recorded, now, has_same_inputs=True)
    return ReplayReport(
        trace_id="4f1c9a",
        definition="rmsnorm_h8",
        solution="rmsnorm_h8_alice",
        workload="w1",
        axes={"rows": 4},
        seed="00000000000000ff",
        hardware="AMD EPYC",
        recorded_hardware="AMD EPYC",
        recorded_at=recorded.timestamp,
        agrees=all(each.agrees is not False for each in compared),
        compared=compared,
        warnings=warnings,
        recorded_log=recorded.log,
        log=now.log,
        has_failed=now.status != "PASSED",
        recorded_failure=evaluation_failure(recorded),
        failure=evaluation_failure(now),
    )


def page_of(report: ReplayReport) -> str:
    return page_text(replay_page(report))


def test_two_versions_are_compared_on_a_page(compare: Compare) -> None:
    compare("ab-page.txt", page_text(ab_page(AB)))


def test_a_version_that_is_wrong_has_no_verdict(compare: Compare) -> None:
    failures = (
        AbFailure(
            "new", "w1", {"rows": 4}, "INCORRECT_NUMERICAL", "1 of 8 elements differ\nat [7]"
        ),
        AbFailure(
            "new",
            "w2",
            {"rows": 64},
            "INCORRECT_NUMERICAL",
            "1 of 8 elements differ\nat [7]",
            ("changed_inputs", "implausible"),
        ),
    )
    remarks = ("new targets NVIDIA B200; it runs on AMD EPYC",)
    report = replace(
        AB, is_same_code=True, remarks=remarks, workloads=AB.workloads[2:], failures=failures
    )

    compare("ab-page-wrong.txt", page_text(ab_page(report)))


def test_what_cannot_be_timed_is_said(compare: Compare) -> None:
    report = replace(
        AB,
        hardware="",
        workloads=(),
        skipped=(SkippedJob("rmsnorm_h8", "new", "w1", "there is no CUDA device"),),
        dataset_faults=(Fault("rmsnorm_h8", "w2", "the reference raised ValueError"),),
    )

    compare("ab-page-nothing.txt", page_text(ab_page(report)))


def test_a_machine_is_described_on_a_page(compare: Compare) -> None:
    compare("doctor-page.txt", page_text(doctor_page(DOCTOR)))


def test_a_machine_that_can_run_nothing_says_so(compare: Compare) -> None:
    machine = replace(DOCTOR.machine, busiest=(), governor=None, has_turbo=None, cpu_quota=None)
    report = replace(
        DOCTOR, can_run=False, noise=None, noise_failure="torch is not installed", machine=machine
    )

    compare("doctor-page-nothing.txt", page_text(doctor_page(report)))


def test_a_replay_that_agrees_is_a_table(compare: Compare) -> None:
    compare("replay-page.txt", page_of(replayed(evaluation(), evaluation(latency_ms=0.26))))


def test_a_failure_that_comes_again_is_shown_once(compare: Compare) -> None:
    failed = evaluation("INCORRECT_NUMERICAL", 0.5)

    compare("replay-page-failing.txt", page_of(replayed(failed, failed)))


def test_a_replay_that_differs_shows_both_logs(compare: Compare) -> None:
    report = replayed(
        evaluation(), evaluation("INCORRECT_NUMERICAL", 0.5), "definition has changed since"
    )

    compare("replay-page-differs.txt", page_of(report))


@pytest.mark.parametrize("name", ["ab", "doctor", "replay"])
def test_a_document_is_what_it_was(
    name: str, compare: Compare, capsys: pytest.CaptureFixture[str]
) -> None:
    reports = {"ab": AB, "doctor": DOCTOR, "replay": replayed(evaluation(), evaluation())}

    screen.show_json({"schema_version": 1, "exit_code": 0, name: reports[name]})

    compare(f"{name}.json", capsys.readouterr().out)


def test_failures_of_a_replay_are_values(
    compare: Compare, capsys: pytest.CaptureFixture[str]
) -> None:
    log = "trial 0, call 0: output 'out': 1 of 8 elements differ\n  at [0, 3]: got 1.5, expected 0.5\n"
    failed = evaluation("INCORRECT_NUMERICAL", 1.0).model_copy(update={"log": log})
    report = replayed(evaluation(), failed)

    screen.show_json({"schema_version": 1, "exit_code": 1, "replay": report})

    assert report.recorded_failure is None
    compare("replay-failing.json", capsys.readouterr().out)
