from __future__ import annotations

import math

import pytest

from flashinfer_bench.text.numbers import (
    duration_text,
    error_text,
    latency_text,
    percent_text,
    speedup_text,
)


@pytest.mark.parametrize(
    ("latency_ms", "interval_ms", "text"),
    [
        (0.000_012_3, None, "12.3 ns"),
        (0.001, None, "1.00 µs"),
        (0.999_96, None, "1.00 ms"),
        (12.345, None, "12.3 ms"),
        (12_345.6, None, "12.3 s"),
        (0.0, None, "0 ns"),
        (None, None, "-"),
        (0.012_345_6, (0.012_344, 0.012_347), "12.35 µs"),  # four digits at most
        (0.012_345_6, (0.012_345_6, 0.012_345_6), "12.35 µs"),
        (0.012_345_6, (0.005, 0.040), "10 µs"),
        (0.123_456, (0.08, 0.2), "120 µs"),
    ],
)
def test_a_latency_has_a_unit_and_the_digits_its_interval_supports(
    latency_ms: float | None, interval_ms: tuple[float, float] | None, text: str
) -> None:
    assert latency_text(latency_ms, interval_ms) == text


@pytest.mark.parametrize(
    ("speedup", "interval", "text"),
    [
        (1.8345, (1.79, 1.88), "1.83x (1.79, 1.88)"),
        (1.8345, (0.9, 3.2), "2x (1, 3)"),
        (1.83449, (1.8344, 1.8346), "1.834x (1.834, 1.835)"),
        (0.5, None, "0.50x"),
        (123.4, None, "123x"),
        (0.0, None, "0x"),
        (None, None, "-"),
        (math.inf, None, "infx"),
    ],
)
def test_a_speedup_shows_its_interval(
    speedup: float | None, interval: tuple[float, float] | None, text: str
) -> None:
    assert speedup_text(speedup, interval) == text


def test_errors_show_their_size() -> None:
    errors = [None, 0.0, 312.4, math.inf, math.nan]

    assert [error_text(error) for error in errors] == ["-", "0", "3.1e+02", "inf", "nan"]


def test_durations_and_shares_read_well() -> None:
    texts = [duration_text(59.6), duration_text(0.2), percent_text(0.005), percent_text(None)]

    assert texts == ["1 min 00 s", "0 s", "<1%", "-"]
