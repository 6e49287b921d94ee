"""Inputs of pieces that are the model's own numbers, in files and in workloads."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import flashinfer_bench as fib
from flashinfer_bench.data import TraceSet
from flashinfer_bench.data.distributions import IndexPointers, Integers, Permutation
from flashinfer_bench.decompose.emit.constants import form_of, spread_of, written


class MaskedScores(nn.Module):
    bias: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("bias", torch.tril(torch.ones(40, 40)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x @ x.transpose(-2, -1)).masked_fill(self.bias == 0, float("-inf")).softmax(-1)


class Segments(nn.Module):
    table: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.zeros(1, 64, dtype=torch.int64))
        self.names = nn.Embedding(2, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        chosen = torch.gather(self.table.expand(4, -1), 1, torch.arange(5).expand(4, 5))
        return x + self.names(chosen)


class Experts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(8, 4)
        self.weight = nn.Parameter(torch.randn(4, 8, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        expert = self.router(x).softmax(-1).argmax(-1)
        order = expert.argsort()
        load = torch.histc(expert.float(), bins=4, min=0, max=3)
        ends = load.cumsum(0).to(torch.int32)
        return _spread(x[order], ends, self.weight)


def _spread(x: torch.Tensor, ends: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    rows = torch.arange(x.shape[0], device=x.device)
    owner = (rows[:, None] >= ends[None, :]).sum(-1)
    return x * weight.mean((1, 2)).index_select(0, owner)[:, None]


def rotate_half(x: torch.Tensor) -> torch.Tensor:
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)


def rotary(
    q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    cos, sin = cos.unsqueeze(0), sin.unsqueeze(0)
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


class Rotated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        q, k = rotary(self.q(x), self.k(x), cos, sin)
        return q @ k.transpose(-2, -1)


def _files(directory: Path, pattern: str) -> list[dict[str, Any]]:
    found = sorted(directory.glob(f"level_*/{pattern}*.py"))
    return [runpy.run_path(str(each)) for each in found]


def _inputs(directory: Path, pattern: str) -> dict[str, torch.Tensor]:
    [file] = _files(directory, pattern)
    names = file["Model"].forward.__code__.co_varnames[1:]
    return dict(zip(names, file["get_inputs"](), strict=False))


def test_a_mask_that_is_a_buffer_of_floats_is_the_models_own(tmp_path: Path) -> None:
    model = MaskedScores()

    fib.decompose(model, (torch.randn(2, 40, 8),)).write(tmp_path / "out")

    inputs = _inputs(tmp_path / "out", "masked_fill")
    assert torch.equal(inputs["bias"], model.bias)
    traces = TraceSet.from_path(tmp_path / "out/dataset")
    [definition] = [name for name in traces.definitions if name.startswith("masked_fill")]
    stated = traces.workloads[definition][0].workload.inputs
    assert {name: each.type for name, each in stated.items()} == {
        "x": "random",
        "bias": "safetensors",
    }


def test_indices_that_a_buffer_gives_stay_within_their_table(tmp_path: Path) -> None:
    fib.decompose(Segments(), (torch.randn(4, 5, 8),)).write(tmp_path / "out")

    for file in _files(tmp_path / "out", ""):
        file["run_tests"]()


def test_offsets_of_experts_rise_to_the_number_of_rows(tmp_path: Path) -> None:
    fib.decompose(Experts(), (torch.randn(32, 8),)).write(tmp_path / "out")

    [ends] = [
        each for each in _inputs(tmp_path / "out", "spread").values() if each.dtype == torch.int32
    ]
    assert ends.tolist() == sorted(ends.tolist())
    assert ends[-1] == 32
    assert ends[0] > 0


def test_a_function_takes_a_tensor_once_and_cuts_it_inside(tmp_path: Path) -> None:
    found = fib.decompose(Rotated(), (torch.randn(2, 6, 8), torch.randn(6, 8), torch.randn(6, 8)))
    found.write(tmp_path / "out")

    [file] = _files(tmp_path / "out", "rotary")
    names = file["Model"].forward.__code__.co_varnames[1:5]
    given = dict(zip(names, file["get_inputs"](), strict=True))
    assert set(given) == {"q", "k", "cos", "sin"}
    mine = rotary(**given)
    for ours, theirs in zip(mine, file["Model"]()(*given.values()), strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize(
    "numbers",
    [
        torch.tril(torch.ones(1, 200, 200)),
        torch.full((300, 300), float("-inf")).triu(1),
        ~torch.ones(90, 120, dtype=torch.bool).tril(-2),
        torch.arange(7, 900).expand(3, 2, -1),
        torch.full((40, 40), 3, dtype=torch.int32),
        torch.tensor([0.5, float("inf"), -1.0], dtype=torch.bfloat16),
        torch.rand(64, 64, generator=torch.Generator().manual_seed(0)) < 0.5,
        torch.zeros(0, 3),
    ],
    ids=lambda numbers: f"{numbers.dtype}-{tuple(numbers.shape)}",
)
def test_what_is_written_makes_the_numbers_again(numbers: torch.Tensor) -> None:
    text = written(numbers)

    assert text is not None
    made = eval(text, {"torch": torch, **_codecs()})  # written by the code under test
    assert made.dtype == numbers.dtype
    assert torch.equal(made, numbers)


def _codecs() -> dict[str, Any]:
    import base64
    import zlib

    return {"base64": base64, "zlib": zlib}


def test_numbers_without_a_form_are_too_long_for_a_file() -> None:
    drawn = torch.randn(300, 300, generator=torch.Generator().manual_seed(0))

    assert written(drawn) is None
    assert spread_of(torch.tensor([2, 9, 4])) == Integers(low=2, high=10)


def test_forms_of_integers_are_told_apart() -> None:
    assert form_of(torch.tensor([[2, 0, 1], [1, 2, 0]])) == Permutation()
    assert form_of(torch.tensor([0, 5, 5, 9])) == IndexPointers(total=9, shortest=0, longest=5)
    for plain in ([0, 1, 2, 3], [3, 5, 9], [0, 4, 2], [0, 0]):
        assert form_of(torch.tensor(plain)) is None
