"""Kinds of kernel are the same whatever the sizes; an architecture's time ends by the processor's clock."""

from __future__ import annotations

import contextlib
import time

import pytest

torch = pytest.importorskip("torch")

from flashinfer_bench.decompose.census.examining import OutOfTimeError, _time_limit  # noqa: E402
from flashinfer_bench.decompose.census.kinds import kernel_kinds  # noqa: E402
from flashinfer_bench.decompose.model_file import ModelObject  # noqa: E402
from flashinfer_bench.decompose.pipeline import take_apart  # noqa: E402


class Net(torch.nn.Module):
    def __init__(self, width: int, act: torch.nn.Module) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(width, 2 * width)
        self.act = act

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(self.linear(x))


def kinds(width: int, act: torch.nn.Module) -> dict[str, str]:
    source = ModelObject(Net(width, act), [torch.randn(3, width)])
    return {kind: op_type for kind, (op_type, _) in kernel_kinds(take_apart(source).pieces).items()}


def test_sizes_do_not_count_and_operations_do() -> None:
    relu, wide, gelu = (
        kinds(8, torch.nn.ReLU()),
        kinds(32, torch.nn.ReLU()),
        kinds(8, torch.nn.GELU()),
    )

    assert relu == wide
    assert sorted(relu.values()) == ["linear", "relu"]
    assert len(relu.keys() & gelu.keys()) == 1


def test_time_ends_what_catches_every_exception() -> None:
    def stubborn() -> None:
        while True:
            with contextlib.suppress(Exception):  # as a model's code may
                sum(range(1000))

    began_s = time.process_time()
    with pytest.raises(OutOfTimeError), _time_limit(0.3):
        stubborn()

    assert 0.3 <= time.process_time() - began_s < 5
