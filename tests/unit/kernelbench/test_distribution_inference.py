"""What is drawn freely gets its distribution; what has a structure is left alone."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from flashinfer_bench.kernelbench.distribution_inference import inferred_distribution  # noqa: E402


def draws(make: Any) -> list[Any]:
    found = []
    for seed in range(3):
        torch.manual_seed(seed)
        found.append(make())
    return found


@pytest.mark.parametrize(
    ("make", "distribution"),
    [
        (lambda: torch.rand(64, 200), {"type": "uniform", "low": 0.0, "high": 1.0}),
        (lambda: torch.rand(64, 200) * 4 - 2, {"type": "uniform", "low": -2.0, "high": 2.0}),
        (lambda: torch.randn(64, 200), {"type": "normal", "mean": 0.0, "std": 1.0}),
        (lambda: torch.randn(64, 200).bfloat16(), {"type": "normal", "mean": 0.0, "std": 1.0}),
        (lambda: torch.randn(20, 500).softmax(-1), {"type": "probabilities"}),
        (lambda: torch.randint(0, 10, (512,)), {"type": "integers", "low": 0, "high": 10}),
        (lambda: torch.stack([torch.randperm(50) for _ in range(4)]), {"type": "permutation"}),
        (lambda: torch.rand(40, 40) < 0.25, {"type": "boolean", "rate": 0.25}),
    ],
)
def test_free_draws_are_recognised(make: Any, distribution: dict[str, Any]) -> None:
    found = inferred_distribution(draws(make))

    assert found is not None
    assert found["type"] == distribution["type"]
    assert {key: found[key] for key in distribution} == pytest.approx(distribution, abs=0.02) or (
        found == distribution
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.arange(100).float(),
        lambda: torch.triu(torch.rand(64, 64)),
        lambda: torch.randint(0, 2, (64, 64)).float() * 2 - 1,
        lambda: torch.rand(40, 60) @ torch.rand(60, 40),
        lambda: torch.randn(64, 64).cov(),
        lambda: torch.rand(30, 100) * torch.arange(1, 31)[:, None],
        lambda: torch.rand(200, 4) * torch.tensor([1.0, 1.0, 1.0, 9.0]),
        lambda: torch.rand(20, 300).sort(dim=-1).values,
        lambda: torch.relu(torch.randn(64, 64)),
        lambda: torch.randn(8),
        lambda: torch.randint(0, 50, (300,)).sort().values,
        lambda: torch.stack([torch.randint(0, size, (200,)) for size in (10, 1000)], dim=1),
        lambda: torch.arange(30)[None] < torch.randint(1, 30, (16, 1)),
        lambda: torch.where(torch.rand(64, 64) < 0.5, 0.0, float("-inf")),
    ],
    ids=[
        *("constant", "triangle", "signs", "product", "symmetric", "rows", "columns", "sorted"),
        *("rectified", "few", "sorted integers", "tables", "lengths", "mask of infinities"),
    ],
)
def test_structure_is_left_alone(make: Any) -> None:
    assert inferred_distribution(draws(make)) is None
