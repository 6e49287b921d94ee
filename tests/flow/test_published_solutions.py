"""Solutions that others wrote for published definitions answer for a model's pieces, by name, unchanged."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from torch import nn

from flashinfer_bench.data import TraceSet
from flashinfer_bench.decompose import decompose
from tests.commands import call

SOLUTIONS = Path(__file__).parents[2] / "examples/dataset/solutions/pytorch"
NAMES = {
    "rmsnorm": "rmsnorm_h4096",
    "fused_add_rmsnorm": "fused_add_rmsnorm_h4096",
    "silu_and_mul": "silu_and_mul_i14336",
    "gemm": "gemm_n1024_k4096",
}
"""By op type."""
QUICK = ("--warmup-runs", "0", "--iterations", "1", "--num-trials", "1", "--no-audit")


class _Norm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.to(torch.float32)
        size = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
        return self.weight * (wide * size).to(x.dtype)


class _Pieces(nn.Module):
    """Parts of a Llama 3.1 8B at its widths: a norm, a sum's norm, SiLU of a gate times up, keys of one layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = _Norm(4096).bfloat16(), _Norm(4096).bfloat16()
        self.keys = nn.Linear(4096, 1024, bias=False).half()
        self.more = nn.ModuleList(nn.Linear(1024, 1024).half() for _ in range(4))

    def forward(
        self, x: torch.Tensor, new: torch.Tensor, gate_up: torch.Tensor, halves: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        normed = self.first(x)
        total = x + new
        gate, up = gate_up.chunk(2, dim=-1)
        keys = self.keys(halves)
        for each in self.more:
            keys = each(keys)
        return normed, total, self.second(total), nn.functional.silu(gate) * up, keys


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> TraceSet:
    rows = (2, 3)
    inputs = (
        torch.randn(*rows, 4096).bfloat16(),
        torch.randn(*rows, 4096).bfloat16(),
        torch.randn(*rows, 28672).bfloat16(),
        torch.randn(*rows, 4096).half(),
    )
    folder = tmp_path_factory.mktemp("llama")
    decompose(_Pieces(), inputs).write(folder / "out", levels=("kernel", "fusion"))
    dataset = folder / "out/dataset"
    for op_type in NAMES:
        shutil.copytree(SOLUTIONS / op_type, dataset / "solutions/pytorch" / op_type)
    solutions = [f"{name}_pytorch" for name in NAMES.values()]
    call("run", "--local", dataset, "--solutions", *solutions, *QUICK)
    return TraceSet.from_path(dataset)


@pytest.mark.full  # four jobs; `make test` looks at the names and tensors of the same pieces
@pytest.mark.parametrize("name", NAMES.values())
def test_an_existing_solution_passes_on_a_models_piece(dataset: TraceSet, name: str) -> None:
    traces = dataset.traces.get(name, [])

    assert [(each.solution, each.evaluation and each.evaluation.status) for each in traces] == [
        (f"{name}_pytorch", "PASSED")
    ]
