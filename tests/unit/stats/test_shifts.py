"""Ratios of what was measured apart: right intervals, whatever the order and the distribution."""

from __future__ import annotations

import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashinfer_bench.stats.shifts import least_confidence, quotient, series_shift, shift

SPEEDS = st.lists(st.floats(min_value=0.1, max_value=10.0), min_size=4, max_size=9)


def test_the_ranks_are_those_of_the_exact_distribution() -> None:
    old, new = [1.0] * 6, [1.01, 1.02, 1.03, 1.04, 1.05, 1.06]

    _, interval = shift(old, new)

    # Tables of the Mann-Whitney test give 5 for six against six at 5%, so the sixth of 36 ratios on either side.
    assert interval == (1.01, 1.06)
    assert shift([1.0] * 6, [float(number) for number in range(1, 7)])[1] == (1.0, 6.0)


@pytest.mark.parametrize(
    ("first", "second", "is_enough"), [(3, 3, False), (4, 4, True), (3, 5, True), (2, 7, False)]
)
def test_few_values_give_no_interval(first: int, second: int, is_enough: bool) -> None:
    _, interval = shift([1.0] * first, [2.0] * second)

    assert (interval is not None) is is_enough
    assert (least_confidence(first, second) >= 0.95) is is_enough


@given(SPEEDS, SPEEDS)
def test_exchanging_the_sides_inverts_ratio_and_interval(
    old: list[float], new: list[float]
) -> None:
    value, interval = shift(old, new)
    inverse, inverted = shift(new, old)

    assert value == pytest.approx(1 / inverse)
    assert interval is not None
    assert inverted is not None
    assert interval == pytest.approx((1 / inverted[1], 1 / inverted[0]))


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    draw = random.Random(5)
    covered = 0
    for _ in range(400):
        old = [draw.lognormvariate(0.0, 0.1) for _ in range(12)]
        new = [1.5 * draw.lognormvariate(0.0, 0.1) for _ in range(12)]
        interval = shift(old, new)[1]
        covered += interval is not None and interval[0] <= 1.5 <= interval[1]

    assert 0.92 <= covered / 400 <= 0.99


def test_the_normal_approximation_goes_on_where_the_exact_distribution_ends() -> None:
    old = [1 + index / 1000 for index in range(32)]
    exact, normal = shift(old[:31], old)[1], shift(old, old)[1]

    assert exact is not None
    assert normal is not None
    assert normal[1] - normal[0] == pytest.approx(exact[1] - exact[0], rel=0.1)


def test_values_that_creep_up_tell_less_than_as_many_independent_ones() -> None:
    creeping = [1 + index / 100 for index in range(12)]
    shuffled = random.Random(1).sample(creeping, 12)

    wide, narrow = series_shift(creeping, creeping)[1], series_shift(shuffled, shuffled)[1]

    assert wide is not None
    assert narrow is not None
    assert wide[1] - wide[0] > narrow[1] - narrow[0]


def test_a_few_disturbed_blocks_move_a_shift_by_their_share() -> None:
    """Between two speeds a median jumps: 3 blocks of 12 at twice the time made an interval reach from 1 to 4."""
    disturbed = [1.0, 2.0, 1.0, 1.0, 1.0, 2.0, 1.0, 1.0, 2.0, 1.0, 1.0, 1.0]
    slower = [2 * each for each in reversed(disturbed)]

    value, (low, high) = series_shift(disturbed, slower)

    assert value == pytest.approx(2.0)
    assert 1.4 < low < high < 2.9


def test_equal_values_have_an_interval_of_no_width() -> None:
    assert series_shift([1.0] * 6, [1.0] * 6) == (1.0, (1.0, 1.0))


def test_distances_of_a_quotient_add_in_squares() -> None:
    value, interval = quotient(2.0, (2 / 1.03, 2 * 1.03), 1.0, (1 / 1.04, 1.04))

    expected = math.exp(math.hypot(math.log(1.03), math.log(1.04)))
    assert value == 2.0
    assert interval == pytest.approx((2 / expected, 2 * expected))


@pytest.mark.parametrize("interval", [None, (0.0, 1.5), (1.1, 1.5)])
def test_a_value_outside_its_interval_has_no_quotient_interval(
    interval: tuple[float, float] | None,
) -> None:
    assert quotient(1.0, interval, 1.0, (0.9, 1.1))[1] is None
    assert quotient(1.0, (0.9, 1.1), 1.0, interval)[1] is None


@pytest.mark.parametrize(("first", "second"), [(4, 5), (5, 5), (4, 6), (3, 7)])
def test_of_all_orders_of_equal_values_at_most_one_in_twenty_looks_different(
    first: int, second: int
) -> None:
    values = [1.1**rank for rank in range(first + second)]
    orders = list(itertools.combinations(values, first))

    intervals = [shift(old, sorted(set(values) - set(old)))[1] for old in orders]
    different = sum(each is not None and not each[0] <= 1 <= each[1] for each in intervals)

    assert 0 < different / len(orders) <= 0.05
