"""Bounds on chance hold: honest draws exceed them no more often than stated, for few draws and for many."""

from __future__ import annotations

import pytest
import torch

from flashinfer_bench.judging.chance import (
    RepetitionBet,
    ranks_stray,
    total_variation_strays,
)

RUNS = 4000


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(7)


@pytest.mark.parametrize("draws", [5, 50, 500])
@pytest.mark.parametrize("rate", [0.3, 0.05])
def test_ranks_of_honest_draws_stray_further_no_more_often_than_stated(
    draws: int, rate: float
) -> None:
    ranks = torch.rand(RUNS, draws, generator=generator(), dtype=torch.float64).sort(-1).values
    steps = torch.arange(draws + 1) / draws
    gaps = torch.maximum((steps[1:] - ranks).amax(-1), (ranks - steps[:-1]).amax(-1))

    share = float((gaps > ranks_stray(draws, rate)).double().mean())

    assert share <= rate
    assert share > rate / 20  # not so wide that it would never notice


@pytest.mark.parametrize("draws", [20, 200])
@pytest.mark.parametrize("cells", [2, 8, 40])
def test_total_variation_of_honest_draws_exceeds_its_bound_no_more_often_than_stated(
    draws: int, cells: int
) -> None:
    weights = torch.rand(cells, generator=generator(), dtype=torch.float64) + 0.1
    shares = weights / weights.sum()
    drawn = torch.multinomial(
        shares.repeat(RUNS, 1), draws, replacement=True, generator=generator()
    )
    counts = torch.zeros(RUNS, cells, dtype=torch.float64)
    counts.scatter_add_(1, drawn, torch.ones_like(drawn, dtype=torch.float64))
    distances = (counts / draws - shares).abs().sum(-1) / 2

    bound = total_variation_strays(shares[None], draws, 0.1)

    assert float((distances > bound).double().mean()) <= 0.1
    assert float(distances.mean()) > 0.2 * float(bound)


def test_the_bound_is_within_the_largest_distance_there_is_with_enough_draws() -> None:
    (bound,) = total_variation_strays(torch.full((1, 20), 0.05), 100, 1e-6).tolist()

    assert bound == pytest.approx(0.5 * 20 * (0.05 * 0.95 / 100) ** 0.5 + 0.2628, abs=1e-3)


def test_honest_draws_lose_the_bet_no_more_often_than_stated() -> None:
    lost = 0
    coins = torch.rand(RUNS, 60, generator=generator()) < 0.02
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
