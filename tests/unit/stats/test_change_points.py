"""Changes of a series are found where they are, and seldom where there is none."""

from __future__ import annotations

import math
import random

import pytest

from flashinfer_bench.stats.change_points import (
    FALSE_ALARMS,
    change_points,
    least_runs,
    least_side,
)


def _noisy(levels: list[float], seed: int, noise: float = 0.02) -> list[float]:
    draw = random.Random(seed)
    return [level * math.exp(draw.gauss(0.0, noise)) for level in levels]


@pytest.mark.parametrize("seed", range(5))
def test_a_change_is_found_where_it_is(seed: int) -> None:
    (point,) = change_points(_noisy([1.0] * 15 + [0.8] * 6, seed))

    assert point.at == 15
    assert point.verdict == "SLOWER"
    assert point.ratio == pytest.approx(0.8, rel=0.03)


def test_several_changes_are_found_each_against_its_neighbours() -> None:
    points = change_points(_noisy([1.0] * 12 + [1.3] * 12 + [0.9] * 12, seed=3))

    assert [(point.at, str(point.verdict)) for point in points] == [(12, "FASTER"), (24, "SLOWER")]
    assert points[1].ratio == pytest.approx(0.9 / 1.3, rel=0.03)


def test_one_odd_run_is_no_change() -> None:
    assert change_points(_noisy([1.0] * 10 + [0.5] + [1.0] * 10, seed=1)) == ()


def test_a_change_within_the_threshold_is_none() -> None:
    series = _noisy([1.0] * 20 + [1.01] * 20, seed=1, noise=0.0001)

    assert change_points(series) == ()
    assert [point.at for point in change_points(series, threshold=0.005)] == [20]


def test_marks_appear_in_few_series_without_a_change() -> None:
    marked = sum(bool(change_points(_noisy([1.0] * 20, seed))) for seed in range(300))

    assert marked / 300 <= FALSE_ALARMS


def test_what_can_be_told_depends_on_how_many_runs_there_are() -> None:
    assert change_points([1.0] * 3 + [0.1] * 4) == ()
    assert [point.at for point in change_points([1.0] * 4 + [0.1] * 4)] == [4]
    assert (least_side(7), least_side(8), least_side(20)) == (None, 4, 3)
    assert least_runs(FALSE_ALARMS) == 8


def test_an_empty_series_has_no_change() -> None:
    assert change_points([]) == ()
