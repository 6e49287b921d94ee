from __future__ import annotations

from dataclasses import replace

from flashinfer_bench.report.jobs import JobResult, job_line, result_blocks, solution_results
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


def test_interpreted_times_are_no_part_of_a_summary() -> None:
    (line,) = solution_results([INTERPRETED])

    assert (line.passed, line.interpreted) == (1, True)
    assert (line.latency_ms, line.speedup, line.sol_fraction) == (None, None, None)


def test_a_table_with_an_interpreted_kernel_says_what_that_means() -> None:
    assert "right or wrong counts" in page_text(result_blocks([INTERPRETED]))
    assert "right or wrong counts" not in page_text(result_blocks([TIMED]))


def test_a_table_says_where_much_work_could_lie_outside_of_the_latency() -> None:
    much, little = replace(TIMED, unaccounted_ms=1.3), replace(TIMED, unaccounted_ms=1.2)

    assert much.remarks == ("unaccounted",)
    assert little.remarks == ()
    assert "`unaccounted_ms` in the trace says how much" in page_text(result_blocks([much]))
    assert "unaccounted" not in page_text(result_blocks([little]))
