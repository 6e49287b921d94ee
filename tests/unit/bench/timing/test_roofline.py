"""Shares of the roofline, and times that are too short for what a definition declares."""

from __future__ import annotations

import pytest

from flashinfer_bench.bench.timing.roofline import Work, disbelief, sol_fraction
from flashinfer_bench.tensors.ceilings import Ceilings

MB = 1e6
CEILINGS = Ceilings(
    memory_bytes_per_s=10e9,
    cache_bytes_per_s=100e9,
    cache_bytes=4_000_000,
    flops_per_s={"float32": 1e12, "bfloat16": 4e12},
)


@pytest.mark.parametrize(
    ("work", "is_cold", "latency_ms", "expected"),
    [
        pytest.param(Work(100 * MB), False, 20.0, 0.5, id="memory"),
        pytest.param(Work(1 * MB), False, 0.02, 0.5, id="in the cache"),
        pytest.param(Work(1 * MB), True, 0.2, 0.5, id="out of the cache, evicted"),
        pytest.param(
            Work(1 * MB, 1e9, dtypes=frozenset({"float32"})), False, 2.0, 0.5, id="arithmetic"
        ),
        pytest.param(
            Work(100 * MB, 1e9, dtypes=frozenset({"float32"})), False, 10.0, 1.0, id="the longer"
        ),
        pytest.param(
            Work(1 * MB, 4e9, dtypes=frozenset({"float8_e4m3fn"})), False, 1.0, 1.0, id="unmeasured"
        ),
    ],
)
def test_the_speed_of_light_is_the_longer_of_moving_and_computing(
    work: Work, is_cold: bool, latency_ms: float, expected: float
) -> None:
    found = sol_fraction(work, CEILINGS, latency_ms * 1e6, is_cold=is_cold)

    assert found == pytest.approx(expected)


def test_no_time_has_no_share() -> None:
    assert sol_fraction(Work(1.0), CEILINGS, 0.0, is_cold=False) is None


def test_what_is_merely_inferred_never_accuses() -> None:
    assert disbelief(Work(1e12), CEILINGS, 1.0) is None


def test_fewer_bytes_a_second_than_the_margin_allows_are_believed() -> None:
    work = Work(108 * MB, declared_bytes=108 * MB)  # 100 MB beyond twice the cache: 6.7 ms

    assert disbelief(work, CEILINGS, 6.7e6) is None


def test_more_bytes_a_second_than_memory_has_are_not() -> None:
    work = Work(108 * MB, declared_bytes=108 * MB)

    said = disbelief(work, CEILINGS, 6.6e6)

    assert "min_bytes, 1.08e+08" in said
    assert "6.67e+03 µs at 1.5 times the 10 GB/s" in said


def test_what_fits_into_the_cache_twice_is_no_bound() -> None:
    assert disbelief(Work(8 * MB, declared_bytes=8 * MB), CEILINGS, 1.0) is None


@pytest.mark.parametrize(("latency_ms", "is_believed"), [(1.01, True), (0.99, False)])
def test_operations_are_held_against_a_type_four_times_faster_than_any_measured(
    latency_ms: float, is_believed: bool
) -> None:
    work = Work(1.0, flops=24e9)  # 24 TFLOP/s would need 1 ms

    assert (disbelief(work, CEILINGS, latency_ms * 1e6) is None) is is_believed
