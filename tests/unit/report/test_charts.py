from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashinfer_bench.report.charts import ASCII, UNICODE, bar, scatter, sparkline
from tests.unit.bench.values import STEADY

POSITIVE = st.floats(min_value=0.01, max_value=1e6)


@STEADY
@given(value=POSITIVE, largest=POSITIVE, width=st.integers(1, 120))
def test_a_bar_is_as_wide_as_its_place(value: float, largest: float, width: int) -> None:
    assert len(bar(value, (value / 2, value * 2), largest=largest, width=width)) == width


def test_one_is_marked_where_the_bar_does_not_cover_it() -> None:
    assert bar(0.25, None, largest=2.0, width=8) == "█  ┊    "
    assert bar(2.0, None, largest=2.0, width=8) == "████████"


def test_a_bar_of_no_number_is_empty() -> None:
    assert bar(math.nan, None, largest=2.0, width=4) == "    "


@STEADY
@given(values=st.lists(POSITIVE, max_size=300), width=st.integers(1, 80))
def test_a_sparkline_has_a_cell_per_value_until_it_is_full(values: list[float], width: int) -> None:
    line = sparkline(values, width=width)

    assert len(line) == min(width, len(values))
    assert set(line) <= set(UNICODE.levels)


def test_a_step_shows_as_a_step() -> None:
    assert sparkline([1.0] * 50 + [2.0] * 50, width=10) == "▁▁▁▁▁█████"
    assert sparkline([1.0] * 50 + [2.0] * 50, width=4, ink=ASCII) == "__##"


def test_slower_is_higher_and_what_falls_together_is_a_star() -> None:
    lines = scatter({"a": {0: 1.0, 1: 100.0}, "b": {0: 1.0}}, ["8", "16"])

    assert lines[0].startswith(" 100 ms │")
    assert lines[0].rstrip().endswith("a")
    assert lines[8].startswith("1.00 ms │   *")
    assert lines[10].split() == ["8", "16"]


def test_one_height_needs_one_tick() -> None:
    lines = scatter({"a": {0: 1.0}, "b": {1: 1.0}}, ["8", "16"])

    assert sum("ms" in line for line in lines) == 1


@pytest.mark.parametrize("points", [{}, {"a": {}}, {"a": {0: 0.0}}])
def test_nothing_is_drawn_of_no_times(points: dict[str, dict[int, float]]) -> None:
    assert scatter(points, ["8"]) == []


def test_ascii_ink_is_ascii() -> None:
    drawn = [
        bar(1.5, (1, 2), largest=4, width=20, ink=ASCII),
        sparkline([1, 2, 3], width=3, ink=ASCII),
    ]
    drawn += [line.replace("µ", "u") for line in scatter({"a": {0: 1.0}}, ["8"], ink=ASCII)]

    assert all(line.isascii() for line in drawn)
