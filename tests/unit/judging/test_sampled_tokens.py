"""How far honest draws stray from what they are drawn from, counted in cells."""

from __future__ import annotations

import pytest
import torch

from flashinfer_bench.judging.sampled_tokens import total_variation_strays

RUNS = 4000


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(7)


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
