"""Figures of floats that nobody keeps."""

from __future__ import annotations

import pytest
import torch

from flashinfer_bench.data.workload import InputStatistics
from flashinfer_bench.tensors.statistics import MOST_ELEMENTS, elements_of, statistics_of


def figures_of(tensor: torch.Tensor) -> InputStatistics | None:
    elements = elements_of(tensor)
    return None if elements is None else statistics_of(elements)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float8_e4m3fn])
@pytest.mark.parametrize("shape", [(), (7,), (3, 4, 5), (1024, 4096)])
def test_figures_are_those_of_the_tensor(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    tensor = (torch.randn(shape, generator=torch.Generator().manual_seed(0)) * 2 + 1).to(dtype)
    exact = tensor.double()
    close = 1e-5 if tensor.numel() <= MOST_ELEMENTS else 0.05

    found = figures_of(tensor)

    assert found is not None
    assert found.mean == pytest.approx(exact.mean().item(), rel=close)
    assert found.std == pytest.approx(exact.std(correction=0).item(), rel=close, abs=1e-9)
    assert found.largest == pytest.approx(exact.abs().max().item(), rel=max(close, 0.3))


def test_a_column_that_differs_is_met_in_its_share() -> None:
    tensor = torch.zeros(4096, 1024)
    tensor[:, 0] = 1.0

    found = figures_of(tensor)

    assert found is not None
    assert found.zeros == pytest.approx(1 - 1 / 1024, abs=5e-4)
    assert found.mean == pytest.approx(1 / 1024, rel=0.5)


def test_a_tensor_in_any_order_of_memory_is_not_copied_whole() -> None:
    tensor = torch.arange(6.0).reshape(2, 3).T.expand(1_000_000, 3, 2)

    found, elements = figures_of(tensor), elements_of(tensor)

    assert elements is not None
    assert elements.untyped_storage().nbytes() <= 5 * MOST_ELEMENTS
    assert found is not None
    assert (found.largest, found.mean) == (5.0, pytest.approx(2.5, rel=0.01))


@pytest.mark.parametrize(
    "tensor",
    [torch.ones(3, dtype=torch.int64), torch.empty(0), torch.full((4,), float("nan"))],
)
def test_where_there_is_nothing_to_say_nothing_is_said(tensor: torch.Tensor) -> None:
    assert figures_of(tensor) is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.float8_e4m3fn])
def test_elements_are_a_copy(dtype: torch.dtype) -> None:
    tensor = torch.ones(5, dtype=torch.float32).to(dtype)
    elements = elements_of(tensor)
    tensor.zero_()

    assert elements is not None
    assert elements.float().tolist() == [1.0] * 5
