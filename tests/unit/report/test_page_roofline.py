from __future__ import annotations

from typing import Any

import pytest

from flashinfer_bench.data.trace import Environment, Evaluation
from flashinfer_bench.report.page.content import Job
from flashinfer_bench.report.page.roofline import roofline

from .rows import row

CEILINGS = {"memory_gb_per_s": 100.0, "cache_gb_per_s": 400.0, "float32_gflop_per_s": 1000.0}


def job(solution: str = "a", **performance: Any) -> Job:
    measured = {"latency_ms": 1.0, "ceilings": CEILINGS, "bytes_moved": 5e7} | performance
    evaluation = Evaluation.model_validate(
        {
            "status": "PASSED",
            "environment": Environment(hardware="card"),
            "timestamp": "2026-01-02",
            "correctness": {},
            "performance": measured,
        }
    )
    return Job(row(solution=solution, latency_ms=measured["latency_ms"]), evaluation)


def test_operations_stand_under_the_peak_and_the_slope_of_memory() -> None:
    found = roofline([job(flops=5e8)], ["a"], "a")

    assert found is not None
    assert found.title == "Roofline"
    assert [rule.text for rule in found.rules] == ["float32: 1.00 TFLOP/s", "memory: 100 GB/s"]
    assert found.numbers.rows == (("a", "n=1", "500 GFLOP/s", "-"),)
    peak = found.rules[0].y
    assert found.series[0].marks[0].y < peak
    assert found.series[0].is_best


def test_slope_and_peak_meet_where_both_take_as_long() -> None:
    found = roofline([job(flops=5e8)], ["a"], None)

    assert found is not None
    peak, slope = found.rules
    ridge = next(tick.at for tick in found.x_ticks if tick.text == "10")
    begin, end = peak.points.split()[0], slope.points.split()[1]
    assert begin == end
    assert float(begin.split(",")[0]) == pytest.approx(10 * ridge, abs=1.0)


def test_ceilings_too_close_for_two_names_share_one() -> None:
    close = {"float16_gflop_per_s": 1000.0, "bfloat16_gflop_per_s": 1010.0}

    found = roofline([job(flops=5e8, ceilings={**CEILINGS, **close})], ["a"], None)

    assert found is not None
    named = [rule.text for rule in found.rules if rule.text]
    assert named[0] == "bfloat16: 1.01 TFLOP/s, float32 and float16: 1.00 TFLOP/s"
    assert len(found.rules) == 3


def test_no_line_is_drawn_above_the_roof() -> None:
    found = roofline([job(flops=5e8), job(flops=5e10, latency_ms=100.0)], ["a"], None)

    assert found is not None
    peak, slope = found.rules
    heights = [
        float(corner.split(",")[1]) for rule in (peak, slope) for corner in rule.points.split()
    ]
    assert min(heights) == pytest.approx(1000 - 10 * peak.y)


def test_without_operations_there_is_the_roof_of_memory_alone() -> None:
    found = roofline([job(), job("b", latency_ms=2.0)], ["b", "a"], None)

    assert found is not None
    assert found.title == "Roofline of memory"
    assert [each.name for each in found.series] == ["b", "a"]
    assert [line[2] for line in found.numbers.rows] == ["50.0 GB/s", "25.0 GB/s"]
    assert {rule.text for rule in found.rules} == {"memory: 100 GB/s", "cache: 400 GB/s"}


def test_equal_ceilings_are_one_line() -> None:
    found = roofline([job(ceilings={**CEILINGS, "cache_gb_per_s": 100.0})], ["a"], None)

    assert found is not None
    assert [rule.text for rule in found.rules] == ["memory and cache: 100 GB/s"]


@pytest.mark.parametrize("missing", [{"ceilings": None}, {"bytes_moved": None}])
def test_what_was_not_measured_is_not_drawn(missing: dict[str, None]) -> None:
    assert roofline([job(**missing)], ["a"], None) is None
