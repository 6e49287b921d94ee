"""Bounds on chance hold: honest draws exceed them no more often than stated, for few draws and for many."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special, stats

from flashinfer_bench.stats.chance import RepetitionBet, ranks_stray, shares_stray

RUNS = 4000


def generator() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.mark.parametrize("draws", [5, 50, 500])
@pytest.mark.parametrize("rate", [0.3, 0.05])
def test_ranks_of_honest_draws_stray_further_no_more_often_than_stated(
    draws: int, rate: float
) -> None:
    ranks = np.sort(generator().random((RUNS, draws)), axis=-1)
    steps = np.arange(draws + 1) / draws
    gaps = np.maximum((steps[1:] - ranks).max(-1), (ranks - steps[:-1]).max(-1))

    share = float((gaps > ranks_stray(draws, rate)).mean())

    assert share <= rate
    assert share > rate / 20  # not so wide that it would never notice


@pytest.mark.parametrize("draws", [1, 5, 50, 500])
@pytest.mark.parametrize("rate", [0.3, 0.05, 1e-6])
def test_ranks_stray_no_further_than_kolmogorovs_exact_distribution_allows(
    draws: int, rate: float
) -> None:
    exact = float(stats.kstwo.isf(rate, draws))

    assert exact <= ranks_stray(draws, rate)
    assert draws < 500 or ranks_stray(draws, rate) == pytest.approx(exact, rel=0.05)


@pytest.mark.parametrize("share", [0.05, 0.5, 0.9])
@pytest.mark.parametrize("draws", [20, 200])
@pytest.mark.parametrize("rate", [0.3, 0.01, 1e-6])
def test_a_share_of_two_exceeds_its_expectation_no_more_often_than_stated(
    share: float, draws: int, rate: float
) -> None:
    counts = np.arange(draws + 1)
    chances = stats.binom.pmf(counts, draws, share)
    distances = np.abs(counts / draws - share)  # the total variation distance of two cells
    expected = float((chances * distances).sum())

    beyond = float(chances[distances > expected + shares_stray(draws, rate)].sum())

    assert beyond <= rate


def test_honest_draws_lose_the_bet_no_more_often_than_stated() -> None:
    lost = 0
    coins = generator().random((RUNS, 60)) < 0.02
    for run in coins.tolist():
        bet = RepetitionBet()
        for repeats in run:
            bet.hear(repeats=repeats, chance=0.02)
        lost += bet.is_lost(0.05)

    assert lost / RUNS <= 0.05


def test_draws_that_repeat_against_all_odds_lose_the_bet() -> None:
    bet = RepetitionBet()
    for _ in range(3):
        bet.hear(repeats=1, chance=1e-4)

    assert bet.is_lost(1e-8)
    assert not bet.is_lost(1e-9)


def test_a_few_repetitions_among_few_tokens_are_no_proof() -> None:
    bet = RepetitionBet()
    for _ in range(3):
        bet.hear(repeats=1, chance=0.2)

    assert not bet.is_lost(1e-2)


def test_draws_that_must_repeat_never_lose_it() -> None:
    bet = RepetitionBet()
    for _ in range(1000):
        bet.hear(repeats=1, chance=1.0)

    assert not bet.is_lost(0.5)


@pytest.mark.parametrize(("repeats", "chance"), [(0, 0.4), (3, 0.002), (20, 7.5), (1000, 1000.0)])
def test_what_the_stake_became_is_the_mean_of_three_bets(repeats: int, chance: float) -> None:
    bet = RepetitionBet()
    bet.hear(repeats=repeats, chance=chance)

    gains = np.array([10.0, 100.0, 1000.0])
    logs = np.log(gains) * repeats - (gains - 1) * chance
    assert bet.log_gain == pytest.approx(float(special.logsumexp(logs)) - math.log(3))
