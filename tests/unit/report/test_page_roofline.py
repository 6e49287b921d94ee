from __future__ import annotations

from typing import Any

import pytest

from flashinfer_bench.data.trace import Environment, Evaluation
from flashinfer_bench.report.page.content import RecordedJob
from flashinfer_bench.report.page.roofline import roofline, why_none

from .rows import row

CEILINGS = {"memory_gb_per_s": 100.0, "cache_gb_per_s": 400.0, "float32_gflop_per_s": 1000.0}
NO_CACHE = {name: rate for name, rate in CEILINGS.items() if name != "cache_gb_per_s"}


def job(solution: str = "a", **performance: Any) -> RecordedJob:
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
    return RecordedJob(row(solution=solution, latency_ms=measured["latency_ms"]), evaluation)


def test_operations_stand_under_the_peak_and_the_slopes_of_cache_and_memory() -> None:
    found = roofline([job(flops=5e8)], ["a"], "a")

    assert found is not None
    assert found.title == "Roofline"
    assert [rule.text for rule in found.rules] == [
        "float32: 1.00 TFLOP/s",
        "cache: 400 GB/s, memory: 100 GB/s",
        "",
    ]
    assert found.remark == "Ceilings: measured on this device."
    assert found.numbers.rows == (("a", "n=1", "500 GFLOP/s", "-"),)
    peak = found.rules[0].y
    assert found.series[0].marks[0].y < peak
    assert found.series[0].is_best


def test_slope_and_peak_meet_where_both_take_as_long() -> None:
    found = roofline([job(flops=5e8, ceilings=NO_CACHE)], ["a"], None)

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
    assert len(found.rules) == 4


def test_no_line_is_drawn_above_the_roof() -> None:
    found = roofline([job(flops=5e8), job(flops=5e10, latency_ms=100.0)], ["a"], None)

    assert found is not None
    peak, *_ = found.rules
    heights = [
        float(corner.split(",")[1]) for rule in found.rules for corner in rule.points.split()
    ]
    assert min(heights) == pytest.approx(1000 - 10 * peak.y)


def test_a_slope_without_a_peak_runs_above_what_was_reached() -> None:
    found = roofline([job(flops=5e6, ceilings={"memory_gb_per_s": 100.0})], ["a"], None)

    assert found is not None
    (slope,) = found.rules
    corners = [tuple(map(float, corner.split(","))) for corner in slope.points.split()]
    (begin, low), (end, high) = corners
    (mark,) = found.series[0].marks
    at_mark = low + (10 * mark.x - begin) / (end - begin) * (high - low)
    assert begin < 10 * mark.x < end
    assert 1000 - 10 * mark.y > at_mark


def test_more_than_the_speed_of_light_is_explained() -> None:
    found = roofline([job(sol_fraction=1.2)], ["a"], None)

    assert found is not None
    assert "What lies above a ceiling" in found.remark
    assert "the definition declares no operation count" in found.remark


def test_who_comes_closest_to_the_speed_of_light_is_said() -> None:
    found = roofline([job(sol_fraction=0.4), job("b", sol_fraction=0.9)], ["a", "b"], None)

    assert found is not None
    assert found.finding == "b comes closest: 90% of the speed of light on n=1."


def test_solutions_that_are_not_drawn_are_counted() -> None:
    names = [f"s{index}" for index in range(15)]

    found = roofline([job(name) for name in names], names, None)

    assert found is not None
    assert found.remark.endswith("The 12 fastest of 15 are drawn.")


@pytest.mark.parametrize(
    ("missing", "why"),
    [
        (
            {"ceilings": None},
            "No roofline: the traces hold no ceilings that were measured with them.",
        ),
        ({"bytes_moved": None}, "No roofline: the traces do not say how many bytes a call moves."),
        ({}, ""),
    ],
)
def test_why_there_is_no_roofline_is_said(missing: dict[str, None], why: str) -> None:
    assert why_none([job(**missing)]) == why


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
