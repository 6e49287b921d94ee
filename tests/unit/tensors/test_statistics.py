"""Figures of floats that nobody keeps."""

from __future__ import annotations

import pytest
import torch

from flashinfer_bench.tensors.statistics import MOST_ELEMENTS, statistics_of


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float8_e4m3fn])
@pytest.mark.parametrize("shape", [(), (7,), (3, 4, 5), (1024, 4096)])
def test_figures_are_those_of_the_tensor(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    tensor = (torch.randn(shape, generator=torch.Generator().manual_seed(0)) * 2 + 1).to(dtype)
    exact = tensor.double()
    close = 1e-5 if tensor.numel() <= MOST_ELEMENTS else 0.05

    found = statistics_of(tensor)

    assert found is not None
    assert found.mean == pytest.approx(exact.mean().item(), rel=close)
    assert found.std == pytest.approx(exact.std(correction=0).item(), rel=close, abs=1e-9)
    assert found.largest == pytest.approx(exact.abs().max().item(), rel=max(close, 0.3))


def test_a_column_that_differs_is_met_in_its_share() -> None:
    tensor = torch.zeros(4096, 1024)
    tensor[:, 0] = 1.0

    found = statistics_of(tensor)

    assert found is not None
    assert found.zeros == pytest.approx(1 - 1 / 1024, abs=5e-4)
    assert found.mean == pytest.approx(1 / 1024, rel=0.5)


def test_a_tensor_in_any_order_of_memory_is_not_copied_whole() -> None:
    tensor = torch.arange(6.0).reshape(2, 3).T.expand(1_000_000, 3, 2)

    found = statistics_of(tensor)

    assert found is not None
    assert (found.largest, found.mean) == (5.0, pytest.approx(2.5, rel=0.01))


@pytest.mark.parametrize(
    "tensor",
    [torch.ones(3, dtype=torch.int64), torch.empty(0), torch.full((4,), float("nan"))],
)
def test_where_there_is_nothing_to_say_nothing_is_said(tensor: torch.Tensor) -> None:
    assert statistics_of(tensor) is None
