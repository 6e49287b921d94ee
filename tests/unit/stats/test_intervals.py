from __future__ import annotations

import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashinfer_bench.stats.blocks import block_ratios, noise, quartiles
from flashinfer_bench.stats.intervals import (
    median_interval,
    median_ratio,
    neighbour_correlation,
    series_interval,
)
from tests.unit.bench.values import STEADY

values = st.lists(
    st.floats(min_value=1e-3, max_value=1e6, allow_nan=False), min_size=1, max_size=60
)
enough_values = st.lists(
    st.floats(min_value=1e-3, max_value=1e6, allow_nan=False), min_size=6, max_size=60
)


@pytest.mark.parametrize("count", range(6))
def test_fewer_than_six_values_give_no_interval(count: int) -> None:
    assert median_interval([1.0] * count) is None


@pytest.mark.parametrize(
    ("count", "rank"),
    # The classical table of order statistics for 95% (Conover, table A3).
    [(6, 1), (7, 1), (8, 1), (9, 2), (10, 2), (11, 2), (12, 3), (20, 6), (50, 18), (100, 40)],
)
def test_the_interval_lies_at_the_ranks_of_the_table(count: int, rank: int) -> None:
    ordered = [float(value) for value in range(1, count + 1)]

    assert median_interval(ordered) == (rank, count + 1 - rank)


def test_more_confidence_is_a_wider_interval() -> None:
    ordered = list(range(100))

    narrow = median_interval(ordered, confidence=0.8)
    wide = median_interval(ordered, confidence=0.999)

    assert wide[0] < narrow[0] < narrow[1] < wide[1]


def test_thousands_of_values_are_no_trouble() -> None:
    low, high = median_interval(range(5000))

    assert low < 2499.5 < high
    assert high - low < 150


@pytest.mark.parametrize("count", [10, 12, 50])
def test_the_interval_covers_the_true_median_as_often_as_it_claims(count: int) -> None:
    draw = random.Random(20_26)
    true_median = 2.0**0.5  # of the skewed distribution below
    intervals = [
        median_interval([(1 - draw.random()) ** -0.5 for _ in range(count)]) for _ in range(2000)
    ]

    covered = sum(low <= true_median <= high for low, high in intervals)

    assert covered / len(intervals) >= 0.93


@STEADY
@given(enough_values)
def test_the_interval_contains_the_median(sampled: list[float]) -> None:
    low, high = median_interval(sampled)

    assert low <= statistics.median(sampled) <= high


@STEADY
@given(enough_values, st.randoms(use_true_random=False))
def test_the_order_of_samples_says_nothing(sampled: list[float], shuffler: random.Random) -> None:
    shuffled = list(sampled)
    shuffler.shuffle(shuffled)

    assert median_interval(shuffled) == median_interval(sampled)
    assert quartiles(shuffled) == quartiles(sampled)
    assert noise(shuffled) == noise(sampled)


@STEADY
@given(values)
def test_quartiles_enclose_the_median_and_lie_within_the_samples(sampled: list[float]) -> None:
    first, third = quartiles(sampled)

    assert min(sampled) <= first * (1 + 1e-12)
    assert first * (1 - 1e-12) <= statistics.median(sampled) <= third * (1 + 1e-12)
    assert third * (1 - 1e-12) <= max(sampled)


@pytest.mark.parametrize(
    ("sampled", "expected"),
    [
        ([7.0], (7.0, 7.0)),
        ([1.0, 2.0, 3.0, 4.0, 5.0], (2.0, 4.0)),
        ([4.0, 1.0, 3.0, 2.0], (1.75, 3.25)),
    ],
)
def test_quartiles_are_linear_between_ranks(
    sampled: list[float], expected: tuple[float, float]
) -> None:
    assert quartiles(sampled) == expected


@pytest.mark.parametrize(
    ("sampled", "expected"),
    [([3.0], 0.0), ([2.0, 2.0, 2.0], 0.0), ([1.0, 2.0, 3.0, 4.0, 5.0], 2 / 3), ([0.0, 0.0], 0.0)],
)
def test_noise_is_the_interquartile_range_over_the_median(
    sampled: list[float], expected: float
) -> None:
    assert noise(sampled) == pytest.approx(expected)


@STEADY
@given(values)
def test_noise_does_not_depend_on_the_unit(sampled: list[float]) -> None:
    in_ns = [value * 1e6 for value in sampled]

    assert noise(in_ns) == pytest.approx(noise(sampled), rel=1e-9, abs=1e-9)


def test_ratios_are_taken_block_by_block() -> None:
    baseline = [[4.0, 4.0, 100.0], [6.0], [1.0]]
    participant = [[2.0], [2.0, 2.0, 0.1], [4.0]]

    assert block_ratios(baseline, participant) == [2.0, 3.0, 0.25]


def test_blocks_without_samples_or_time_give_no_ratio() -> None:
    baseline = [[], [4.0], [4.0]]
    participant = [[2.0], [0.0], [2.0]]

    assert block_ratios(baseline, participant) == [2.0]


def test_a_machine_that_slows_down_for_both_does_not_change_the_ratios() -> None:
    drifting = [[slowness * 3.0] for slowness in (1.0, 1.5, 2.0)]
    along = [[slowness * 1.5] for slowness in (1.0, 1.5, 2.0)]

    assert block_ratios(drifting, along) == [2.0, 2.0, 2.0]


def test_sides_with_different_numbers_of_blocks_do_not_compare() -> None:
    with pytest.raises(ValueError, match="zip"):
        block_ratios([[1.0]], [[1.0], [1.0]])


def test_neighbours_that_are_not_alike_change_nothing() -> None:
    assert series_interval([1, 7, 2, 8, 3, 9, 4, 10, 5, 11, 6, 12]) == (3, 10)


def test_values_that_creep_widen_their_interval_to_the_extremes() -> None:
    creeping = list(range(1, 13))

    assert median_interval(creeping) == (3, 10)
    assert series_interval(creeping) == (1, 12)


@STEADY
@given(enough_values)
def test_an_interval_of_a_series_is_never_narrower(sampled: list[float]) -> None:
    low, high = series_interval(sampled)
    plain_low, plain_high = median_interval(sampled)

    assert low <= plain_low
    assert plain_high <= high


def test_series_intervals_of_independent_values_are_at_most_a_quarter_wider() -> None:
    draw = random.Random(7)
    series = [_wandering(draw, 12, 0.0) for _ in range(1000)]

    widths = [
        [high - low for low, high in map(interval, series)]
        for interval in (median_interval, series_interval)
    ]

    assert statistics.median(widths[1]) <= 1.25 * statistics.median(widths[0])


def test_equal_values_are_alike_in_nothing() -> None:
    assert neighbour_correlation([5.0] * 20) == 0.0


@pytest.mark.parametrize("likeness", [0.0, 0.4, 0.6])
def test_values_that_wander_are_covered_more_often_than_by_ranks_alone(likeness: float) -> None:
    draw = random.Random(20_26)
    series = [_wandering(draw, 30, likeness) for _ in range(1000)]

    ranks = [median_interval(each) for each in series]
    aware = [series_interval(each) for each in series]

    covered = [sum(low <= 0 <= high for low, high in each) / 1000 for each in (ranks, aware)]
    assert covered[1] >= 0.93
    assert covered[1] - covered[0] >= likeness / 8


def test_the_median_of_ratios_is_the_same_from_either_side() -> None:
    ratios = [0.7, 0.9, 1.2, 1.5]

    assert median_ratio(ratios) == pytest.approx(1.08**0.5)
    assert median_ratio([1 / each for each in ratios]) == pytest.approx(1.08**-0.5)


def _wandering(draw: random.Random, count: int, likeness: float) -> list[float]:
    values = [draw.gauss(0, 1)]
    while len(values) < count:
        values.append(likeness * values[-1] + draw.gauss(0, (1 - likeness**2) ** 0.5))
    return values
