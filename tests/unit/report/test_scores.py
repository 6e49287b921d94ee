"""Each score against numbers worked out by hand, and against the definitions it comes from."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashinfer_bench.report.scores.measures import (
    FLASHINFER_BENCH,
    KERNELBENCH,
    Beyond,
    arithmetic,
    arithmetic_interval,
    closed_gap,
    covered,
    fast_p,
    geometric,
    mean_sol_fraction,
    pass_at_k,
    places,
    win_at_p,
)

RATIOS = [2.0, 0.9, 1.0, None]


def test_as_fast_is_no_win_but_is_fast_where_equal_counts() -> None:
    shares = (
        win_at_p(RATIOS, 1.0),
        fast_p({"": RATIOS}, 1.0, Beyond.AT_LEAST),
        fast_p({"": RATIOS}, 1.0, Beyond.MORE),
    )

    assert shares == (0.25, 0.5, 0.25)


def test_a_failure_is_a_ratio_of_zero_which_is_at_least_zero() -> None:
    assert fast_p({"": RATIOS}, 0.0, Beyond.AT_LEAST) == 1.0
    assert fast_p({"": RATIOS}, 0.0, Beyond.MORE) == 0.75


def test_averages_of_three_ratios() -> None:
    ratios = [4 / 2, 9 / 10, 2 / 2]

    assert arithmetic(ratios) == pytest.approx(1.3)
    assert geometric(ratios) == pytest.approx(1.8 ** (1 / 3))
    assert win_at_p(ratios, 1.0) == pytest.approx(1 / 3)


def test_a_failure_loses_the_average_and_leaves_the_geometric_mean() -> None:
    assert arithmetic([2.0, 0.9, None]) == 0.0
    assert geometric([2.0, None]) == 2.0
    assert arithmetic([]) == 0.0
    assert geometric([None]) is None


def test_what_was_not_covered_counts_as_the_baseline() -> None:
    assert covered([2.0], scope=1) == 2.0
    assert covered([2.0], scope=2) == pytest.approx(math.sqrt(2))
    assert covered([], scope=3) == 1.0
    assert covered([], scope=0) is None


def test_more_than_the_speed_of_light_counts_as_it() -> None:
    assert mean_sol_fraction([0.2, 1.7, None, 0.4]) == pytest.approx(0.4)
    assert math.isnan(mean_sol_fraction([]))


@pytest.mark.parametrize(
    ("latency", "compared_with", "fraction", "expected"),
    [(4.0, 4.0, 0.25, 0.5), (2.0, 4.0, 1.3, 1.0), (3.0, 1.0, 0.5, 0.0), (8.0, 4.0, 0.25, 0.25)],
)
def test_the_gap_to_the_speed_of_light(
    latency: float, compared_with: float, fraction: float, expected: float
) -> None:
    assert closed_gap(latency, compared_with, fraction) == expected


@pytest.mark.parametrize(("count", "right", "k"), [(5, 2, 1), (6, 1, 3), (7, 4, 4), (4, 0, 2)])
def test_pass_at_k_is_the_share_of_all_draws_of_k(count: int, right: int, k: int) -> None:
    flags = [index < right for index in range(count)]
    drawn = list(itertools.combinations(flags, k))

    assert pass_at_k({"a": flags}, k) == pytest.approx(sum(map(any, drawn)) / len(drawn))


def test_presets_count_as_their_projects_do() -> None:
    attempts = {"a": [1.0, 1.0, 1.0], "b": [None]}
    pooled = {"all": [ratio for each in attempts.values() for ratio in each]}

    assert fast_p(attempts, 1.0, KERNELBENCH.beyond) == 0.0
    assert fast_p(pooled, 1.0, FLASHINFER_BENCH.beyond) == 0.75
    assert (KERNELBENCH.is_by_problem, FLASHINFER_BENCH.is_by_problem) == (True, False)


def test_an_average_without_every_interval_has_none() -> None:
    assert arithmetic_interval([(1.0, (0.9, 1.1)), (1.0, None)]) is None
    assert arithmetic_interval([]) is None


def test_a_rank_is_every_rank_that_the_intervals_allow() -> None:
    assert places([2.0, 1.9, 1.0], [(1.8, 2.2), (1.7, 2.1), (0.9, 1.1)]) == ["1-2", "1-2", "3"]
    assert places([2.0, 1.9, 1.0], [None, None, None]) == ["1", "2", "3"]
    assert places([2.0, 2.0], [None, None]) == ["1-2", "1-2"]


def test_ties_that_do_not_carry_on_are_shown_as_they_are() -> None:
    chain = places([3.0, 2.6, 2.0], [(2.8, 3.2), (2.2, 2.9), (1.8, 2.3)])
    wide = places([3.0, 2.5, 2.4], [(2.9, 3.1), (2.4, 2.6), (1.0, 4.0)])

    assert chain == ["1-2", "1-3", "2-3"]
    assert wide == ["1-2", "2-3", "1-3"]


@given(st.lists(st.floats(min_value=0.01, max_value=100), min_size=1), st.floats(0.01, 100))
def test_more_than_is_never_more_often_than_at_least(ratios: list[float], p: float) -> None:
    attempts = {"": list(ratios)}

    assert fast_p(attempts, p, Beyond.MORE) <= fast_p(attempts, p, Beyond.AT_LEAST)
