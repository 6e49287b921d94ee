"""What the inputs of pieces are called."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

import flashinfer_bench as fib
from flashinfer_bench.data import TraceSet


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(8, 8)
        self.gru = nn.GRU(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state = x.mean(0, keepdim=True)
        y, _ = self.lstm(x, (state, state.tanh()))
        z: torch.Tensor = self.gru(y, state.exp())[0]
        return z


def turned(q: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    return q * cos + q.flip(-1) * sin


class Turning(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, hidden: torch.Tensor, angles: list[torch.Tensor]) -> torch.Tensor:
        return turned(self.linear(hidden), angles[0], angles[1])


class Outer(nn.Module):
    """Computes the angles, so that they are no inputs of the model's own."""

    def __init__(self) -> None:
        super().__init__()
        self.turning = Turning()
        self.last = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor, angles: list[torch.Tensor]) -> torch.Tensor:
        made = self.turning(torch.relu(x), [angles[0].cos(), angles[1].sin()])
        return torch.softmax(self.last(made), -1).cumsum(-1)


def _inputs(folder: Path) -> dict[str, list[str]]:
    dataset = TraceSet.from_path(folder / "dataset")
    return {name: list(each.inputs) for name, each in dataset.definitions.items()}


def test_states_of_recurrent_networks_have_the_names_people_use(tmp_path: Path) -> None:
    fib.decompose(Recurrent(), (torch.randn(4, 2, 8),)).write(tmp_path / "out")

    found = _inputs(tmp_path / "out")

    [lstm] = [names for piece, names in found.items() if piece.startswith("lstm")]
    [gru] = [names for piece, names in found.items() if piece.startswith("gru")]
    assert lstm[:3] == ["x", "h0", "c0"]
    assert gru[:2] == ["x", "h0"]


def test_a_parent_calls_its_inputs_as_the_code_within_it_does(tmp_path: Path) -> None:
    given = (torch.randn(4, 8), [torch.randn(4, 8), torch.randn(4, 8)])
    found = fib.decompose(Outer(), given)
    found.write(tmp_path / "out", levels=("kernel", "fusion"))

    names = _inputs(tmp_path / "out")

    assert ["hidden", "cos", "sin", "linear_weight", "linear_bias"] in names.values()
