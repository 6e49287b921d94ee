from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashinfer_bench.report.page.figures import Scale, logarithmic

POSITIVE = st.floats(min_value=1e-9, max_value=1e12)


@given(st.lists(POSITIVE, min_size=1, max_size=5))
def test_every_number_lies_inside_its_scale(values: list[float]) -> None:
    scale = logarithmic(values)

    assert scale is not None
    assert all(0 < scale.at(value) < 100 for value in values)


@given(st.lists(POSITIVE, min_size=1, max_size=5))
def test_a_scale_has_ticks_but_not_too_many(values: list[float]) -> None:
    scale = logarithmic(values)

    assert scale is not None
    ticks = scale.ticks(str)
    assert 1 <= len(ticks) <= 7
    assert [tick.at for tick in ticks] == sorted({tick.at for tick in ticks})


def test_ticks_are_round_numbers() -> None:
    linear = [tick.text for tick in Scale(0, 9.3).ticks(lambda value: f"{value:g}")]
    wide = [tick.text for tick in Scale(0.8, 2e4, is_logarithmic=True).ticks(lambda v: f"{v:g}")]

    assert linear == ["0", "2", "4", "6", "8"]
    assert wide == ["1", "10", "100", "1000", "10000"] or wide[0] == "1"


def test_nothing_positive_has_no_scale() -> None:
    assert logarithmic([0.0, float("inf"), float("nan")]) is None


@pytest.mark.parametrize(("value", "place"), [(-1.0, 0.0), (5.0, 100.0)])
def test_what_lies_outside_is_put_at_the_edge(value: float, place: float) -> None:
    assert Scale(0.0, 4.0).at(value) == place
