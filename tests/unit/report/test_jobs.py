from __future__ import annotations

from dataclasses import replace

import pytest

from flashinfer_bench.report.check import CheckReport, check_page
from flashinfer_bench.report.jobs import (
    JobResult,
    for_document,
    job_line,
    note_legend,
    result_blocks,
    solution_results,
    with_log,
)
from flashinfer_bench.text.tables import page_text

TIMED = JobResult(
    definition="d1",
    solution="kernel",
    author="alice",
    language="triton",
    workload="w1",
    axes={"n": 1},
    hardware="card",
    status="PASSED",
    latency_ms=2.5,
    latency_interval_ms=None,
    reference_latency_ms=5.0,
    speedup=2.0,
    speedup_interval=None,
    sol_fraction=0.5,
    max_absolute_error=0.0,
    max_relative_error=0.0,
    violations=(),
    notes=(),
    log="",
)
INTERPRETED = replace(TIMED, interpreted=True)


def test_a_line_of_an_interpreted_job_has_no_times() -> None:
    assert job_line(TIMED) == "PASSED d1 kernel [n=1]: 2.50 ms, 2.00x"
    assert job_line(INTERPRETED) == "PASSED d1 kernel [n=1]: interpreted"


def test_a_name_writes_no_line_of_its_own() -> None:
    job = replace(TIMED, solution="kernel\nPASSED d1 other\x1b[31m")

    assert job_line(job).startswith("PASSED d1 kernel PASSED d1 other [n=1]: ")
    assert len(job_line(job).splitlines()) == 1


def test_interpreted_times_are_no_part_of_a_summary() -> None:
    (line,) = solution_results([INTERPRETED])

    assert (line.passed, line.interpreted) == (1, True)
    assert (line.latency_ms, line.speedup, line.sol_fraction) == (None, None, None)


def test_times_of_an_empty_axis_are_no_part_of_a_summary() -> None:
    times = {"speedup": 0.5, "latency_ms": 0.0, "sol_fraction": 0.0, "unaccounted_ms": 1.0}
    empty = replace(TIMED, **times, axes={"n": 0}, task_notes=("empty_axis",))

    (line,) = solution_results([TIMED, empty])

    assert (line.passed, line.attempted) == (2, 2)
    assert (line.latency_ms, line.speedup, line.sol_fraction) == (2.5, 2.0, 0.5)
    assert line.task_notes == ("empty_axis",)
    assert job_line(empty) == "PASSED d1 kernel [n=0]: weak task: empty_axis"
    report = CheckReport("k.py", "d1", "cpp", "k.py::run", "into", 1, 20, 3, (empty,), (), ())
    assert "0.5x" not in page_text(check_page(report))


def test_a_table_with_an_interpreted_kernel_says_what_that_means() -> None:
    assert "correctness only" in page_text(result_blocks([INTERPRETED]))
    assert "correctness only" not in page_text(result_blocks([TIMED]))


def test_a_table_says_where_much_work_could_lie_outside_of_the_latency() -> None:
    much, little = replace(TIMED, unaccounted_ms=1.3), replace(TIMED, unaccounted_ms=1.2)

    assert much.remarks == ("unaccounted",)
    assert little.remarks == ()
    assert "`unaccounted_ms` (trace, `--json`) says how much" in page_text(result_blocks([much]))
    assert "unaccounted" not in page_text(result_blocks([little]))


def test_a_check_explains_its_notes_as_a_run_does() -> None:
    weak = replace(TIMED, unaccounted_ms=1.3, task_notes=("trivial_answer_passes",))
    report = CheckReport("k.py", "d1", "cpp", "k.py::run", "into", 1, 20, 3, (weak,), (), ())

    said, recorded = page_text(check_page(report)), page_text(result_blocks([weak]))

    explained = note_legend([weak])
    assert [line.partition(":")[0] for line in explained] == [
        "trivial_answer_passes",
        "unaccounted",
    ]
    assert all(line in said and line in recorded for line in explained)


def test_an_error_that_did_not_decide_stands_beside_no_failure() -> None:
    log = "violation changed_inputs: trial 0, call 3: inputs differ after the call"
    broken = replace(
        with_log(replace(TIMED, status="INCORRECT_NUMERICAL", violations=("changed_inputs",)), log),
        max_absolute_error=5.6e-08,
        max_relative_error=1.2e-06,
    )
    report = CheckReport("k.py", "d1", "cpp", "k.py::run", "into", 1, 20, 3, (broken,), (), ())

    for page in (check_page(report), result_blocks([broken])):
        assert "e-08" not in page_text(page)
        assert "e-06" not in page_text(page)
    assert job_line(broken) == f"INCORRECT_NUMERICAL d1 kernel [n=1]: {log}"


def test_a_check_says_where_a_speedup_was_unsteady_and_what_to_do() -> None:
    steady = replace(TIMED, reference_interval_ms=(3.9, 4.1), speedup_interval=(3.8, 4.2))
    wide = replace(TIMED, reference_interval_ms=(2.0, 9.0), speedup_interval=(1.2, 5.0))
    busy = replace(steady, disturbed=("other programs computed",))

    def page(job: JobResult) -> str:
        report = CheckReport("k.py", "d1", "cpp", "k.py::run", "into", 1, 20, 3, (job,), (), ())
        return page_text(check_page(report))

    assert "Unsteady" not in page(steady)
    assert "with n=1: the reference took 2.00 ms to 9.00 ms" in page(wide)
    assert "--iterations 200" in page(wide)
    assert "3.90 ms to 4.10 ms; other programs computed" in page(busy)


def test_a_check_ends_a_cut_log_with_the_file_that_has_all_of_it() -> None:
    failed = replace(TIMED, status="RUNTIME_ERROR", log="step\n" * 99 + "ValueError: no\n")
    report = CheckReport("k.py", "d1", "cpp", "k.py::run", "into", 1, 20, 3, (failed,), (), ())

    said = page_text(check_page(replace(report, log_file="/logs/k.py.log")))

    assert "ValueError: no\n\n  all 100 lines: /logs/k.py.log\n" in said
    assert "lines:" not in page_text(check_page(report))


def test_a_table_and_its_document_show_the_most_memory_that_was_held() -> None:
    jobs = [replace(TIMED, workload=str(size), peak_memory_bytes=size) for size in (3_000_000, 2)]

    (line,) = solution_results(jobs)

    assert line.peak_memory_bytes == 3_000_000
    assert "3 MB" in page_text(result_blocks(jobs))
    assert "peak memory" not in page_text(result_blocks([TIMED]))
    report = CheckReport("k.py", "d1", "cpp", "k.py::run", "into", 1, 20, 3, (jobs[0],), (), ())
    assert "3 MB" in page_text(check_page(report))


def test_a_table_shows_how_long_the_build_took() -> None:
    (line,) = solution_results([replace(TIMED, build_ms=1234.0)])

    assert line.build_ms == 1234.0
    built = replace(TIMED, build_ms=1234.0)
    report = CheckReport("k.py", "d1", "cpp", "k.py::run", "into", 1, 20, 3, (built,), (), ())
    assert "1.23 s" in page_text(result_blocks([built]))
    assert "1.23 s" in page_text(check_page(report))


def test_the_log_of_a_build_stands_once_in_a_document() -> None:
    failed = replace(TIMED, status="COMPILE_ERROR", solution_hash="a1", log="no such file\n$ c++\n")
    jobs = [replace(failed, workload=name) for name in ("w1", "w2")]
    other = replace(failed, solution_hash="b2")
    raised = replace(failed, status="RUNTIME_ERROR")

    first, second, *rest = for_document([*jobs, other, raised, raised])

    assert first == jobs[0]
    assert second.log == "no such file\n(the whole log: in the job with workload w1)\n"
    assert rest == [other, raised, raised]


@pytest.mark.parametrize(
    ("trace_id", "log_file", "place"),
    [
        (None, "k.log", "; the whole log: k.log"),
        ("4f1c9a", None, "; the whole log: in trace 4f1c9a"),
        (None, None, ""),
    ],
)
def test_a_document_has_both_ends_of_a_long_log_and_where_all_of_it_is(
    trace_id: str | None, log_file: str | None, place: str
) -> None:
    log = "began\n" + "still at it\n" * 5_000 + "ended\n"
    long = replace(TIMED, status="TIMEOUT", log=log, trace_id=trace_id)

    (told,) = for_document([long], log_file=log_file)

    assert len(told.log) < 8_200
    assert (told.log[:6], told.log[-6:]) == ("began\n", "ended\n")
    assert f"\n[… {len(log) - 8_000} characters left out{place} …]\n" in told.log
    assert for_document([replace(long, log=log[:8_000])])[0].log == log[:8_000]


def test_results_of_several_hardware_are_not_mixed() -> None:
    jobs = [TIMED, replace(TIMED, hardware="Another CPU")]

    assert [line.hardware for line in solution_results(jobs)] == [TIMED.hardware, "Another CPU"]
    assert f"{TIMED.definition} on Another CPU" in page_text(result_blocks(jobs))
    assert " on " not in page_text(result_blocks([TIMED])).splitlines()[0]
