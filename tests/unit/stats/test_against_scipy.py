"""Formulas of ours against scipy's, wherever scipy has one; scipy is no dependency, only the one to ask."""

from __future__ import annotations

import math
import random
import statistics

import numpy as np
import pytest
import scipy.stats

from flashinfer_bench.stats.blocks import noise, quartiles
from flashinfer_bench.stats.intervals import (
    CONFIDENCE,
    likeness,
    median_interval,
    median_ratio,
    neighbour_correlation,
)
from flashinfer_bench.stats.means import geometric_mean, mean_interval
from flashinfer_bench.stats.shifts import _arrangements, _rank, least_confidence, shift
from flashinfer_bench.stats.student import student_quantile

CONFIDENCES = [0.5, 0.8, 0.9, CONFIDENCE, 0.99, 0.999]


@pytest.mark.parametrize("confidence", [*CONFIDENCES, 0.9995, 1 - 0.05 / 400])
def test_students_quantiles(confidence: float) -> None:
    degrees = [*range(1, 61), 99, 100, 500, 1000]

    ours = [student_quantile(confidence, freedom) for freedom in degrees]

    assert ours == pytest.approx(scipy.stats.t.ppf((1 + confidence) / 2, degrees), rel=1e-9)


def test_beyond_a_thousand_degrees_of_freedom_a_quantile_is_as_good_as_normal() -> None:
    assert student_quantile(CONFIDENCE, 10**6) == pytest.approx(
        scipy.stats.norm.ppf((1 + CONFIDENCE) / 2), rel=2e-3
    )


@pytest.mark.parametrize("confidence", CONFIDENCES)
@pytest.mark.parametrize("count", [*range(1, 40), 100, 501, 2000])
def test_a_medians_interval_lies_at_the_ranks_of_the_binomial(
    count: int, confidence: float
) -> None:
    values = [float(value) for value in range(1, count + 1)]
    outside = 2 * scipy.stats.binom.cdf(np.arange(count // 2), count, 0.5)
    rank = int(np.sum(outside <= 1 - confidence))  # the largest k with 2·P(B < k) within

    found = median_interval(values, confidence=confidence)

    assert found == (None if rank == 0 else (rank, count + 1 - rank))


@pytest.mark.parametrize("count", [8, 12, 30])
def test_a_medians_interval_is_scipys_of_the_sign_test(count: int) -> None:
    draw = random.Random(3)
    values = [draw.lognormvariate(0, 0.3) for _ in range(count)]

    theirs = scipy.stats.quantile_test(values, q=0.0, p=0.5).confidence_interval(CONFIDENCE)

    assert median_interval(values) == pytest.approx((theirs.low, theirs.high))


@pytest.mark.parametrize(("first", "second"), [(1, 1), (2, 7), (4, 4), (6, 6), (5, 11), (12, 9)])
def test_arrangements_are_the_exact_null_distribution_of_mann_and_whitney(
    first: int, second: int
) -> None:
    counts = _arrangements(first, second)
    total = math.comb(first + second, first)
    old = list(range(first))

    assert sum(counts) == total
    for at_most in range(first * second + 1):
        tail = sum(counts[: at_most + 1]) / total
        new = _values_with(at_most, first, second)
        theirs = scipy.stats.mannwhitneyu(old, new, alternative="less", method="exact")
        assert theirs.statistic == at_most
        assert tail == pytest.approx(theirs.pvalue)


@pytest.mark.parametrize("confidence", [0.9, CONFIDENCE, 0.99])
@pytest.mark.parametrize(("first", "second"), [(4, 4), (3, 5), (6, 6), (8, 5), (10, 10), (7, 20)])
def test_an_interval_leaves_one_out_where_the_exact_test_rejects_it(
    first: int, second: int, confidence: float
) -> None:
    draw = random.Random(first * second)
    old = [draw.lognormvariate(0, 0.1) for _ in range(first)]
    new = [draw.lognormvariate(0.1, 0.1) for _ in range(second)]

    _, interval = shift(old, new, confidence=confidence)

    rank = _rank(first, second, confidence)
    assert (interval is None) is (rank == 0)
    for ratio in np.geomspace(0.7, 1.5, 41):
        scaled = [value * ratio for value in old]
        rejected = scipy.stats.mannwhitneyu(new, scaled, method="exact").pvalue <= 1 - confidence
        inside = interval is None or interval[0] <= ratio <= interval[1]
        assert inside is not bool(rejected)


@pytest.mark.parametrize(("first", "second"), [(32, 32), (40, 40), (34, 90), (60, 60)])
def test_the_normal_approximation_gives_the_exact_rank_or_one_that_is_a_little_too_careful(
    first: int, second: int
) -> None:
    chances = np.cumsum(np.array(_arrangements(first, second), dtype=float))
    chances /= math.comb(first + second, first)

    for confidence in (0.9, CONFIDENCE, 0.99, 0.999):
        exact = int(np.sum(2 * chances <= 1 - confidence))
        approximate = _rank(first, second, confidence)
        assert 0 <= exact - approximate <= 8  # of more than a thousand


@pytest.mark.parametrize(("first", "second"), [(4, 4), (3, 7), (12, 2)])
def test_the_greatest_confidence_is_that_of_complete_separation(first: int, second: int) -> None:
    apart = scipy.stats.mannwhitneyu(
        range(first), range(first, first + second), method="exact"
    ).pvalue

    assert least_confidence(first, second) == pytest.approx(1 - apart)


@pytest.mark.parametrize("count", [2, 5, 24, 101])
def test_neighbours_are_correlated_by_the_ranks_that_scipy_gives(count: int) -> None:
    draw = random.Random(count)
    values = [float(draw.randrange(max(2, count // 2))) for _ in range(count - 1)] + [0.5]
    ranks = scipy.stats.rankdata(values) - (count + 1) / 2
    expected = float(ranks[:-1] @ ranks[1:] / (ranks @ ranks))

    assert neighbour_correlation(values) == pytest.approx(expected)
    unbiased = (count * expected + 1) / (count - 4) if count > 4 else 0.0
    assert likeness(values) == pytest.approx(min(0.9, max(0.0, unbiased)))


def test_means_of_ratios() -> None:
    ratios = [0.3, 1.7, 2.2, 9.1]

    assert geometric_mean(ratios) == pytest.approx(scipy.stats.gmean(ratios))
    assert median_ratio(ratios) == pytest.approx(math.exp(np.median(np.log(ratios))))


def test_an_interval_of_a_mean_adds_what_errors_add_on_the_logarithmic_scale() -> None:
    errors = [0.01, 0.03, 0.02]
    reach = scipy.stats.norm.ppf((1 + CONFIDENCE) / 2)
    ratios = [
        (value, (value * math.exp(-reach * error), value * math.exp(reach * error)))
        for value, error in zip([1.1, 0.7, 2.0], errors, strict=True)
    ]
    mean = scipy.stats.norm(
        math.fsum(math.log(value) for value, _ in ratios) / 3, math.hypot(*errors) / 3
    )

    assert mean_interval(ratios) == pytest.approx(np.exp(mean.interval(CONFIDENCE)))


@pytest.mark.parametrize("count", [1, 2, 3, 10, 33])
def test_quartiles_and_noise(count: int) -> None:
    draw = random.Random(count)
    values = [draw.expovariate(1.0) for _ in range(count)]

    assert quartiles(values) == pytest.approx(np.quantile(values, [0.25, 0.75]))
    assert noise(values) == pytest.approx(scipy.stats.iqr(values) / statistics.median(values))


def _values_with(statistic: int, first: int, second: int) -> list[float]:
    """Make the second of two sets, the first being 0, 1, ..., so that Mann and Whitney's U of the first is this."""
    values = []
    left = statistic
    for _ in range(second):
        below = min(first, left)  # so many of the first lie above it
        values.append(first - below - 0.5)
        left -= below
    # U counts pairs, each value once: values that are equal are moved apart without passing one of the first
    return [value + index / (10 * second) for index, value in enumerate(values)]
