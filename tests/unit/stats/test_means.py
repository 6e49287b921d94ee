from __future__ import annotations

import math

import pytest

from flashinfer_bench.stats.means import geometric_mean, mean_interval


def test_half_and_double_cancel() -> None:
    assert geometric_mean([0.5, 2.0, 1.0]) == pytest.approx(1.0)


def test_there_is_no_mean_of_nothing_or_of_zero() -> None:
    assert (geometric_mean([]), geometric_mean([0.0, 2.0])) == (None, None)


def test_the_interval_of_a_mean_narrows_with_the_square_root_of_the_count() -> None:
    one = mean_interval([(1.0, (0.5, 2.0))])
    four = mean_interval([(1.0, (0.5, 2.0))] * 4)

    assert one == pytest.approx((0.5, 2.0))
    assert four == pytest.approx((math.sqrt(0.5), math.sqrt(2.0)))


def test_a_mean_has_no_interval_when_one_ratio_has_none() -> None:
    assert mean_interval([(1.0, (0.9, 1.1)), (1.0, None)]) is None


def test_a_lopsided_interval_stays_around_its_ratio() -> None:
    low, high = mean_interval([(5.8, (5.6, 9.0)), (4.1, (4.0, 5.3)), (6.3, (6.2, 6.9))])

    assert low < (5.8 * 4.1 * 6.3) ** (1 / 3) < high
