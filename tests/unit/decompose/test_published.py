"""Pieces that are kernels of engines have the published definitions' names, shapes and order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

from flashinfer_bench.data import TraceSet
from flashinfer_bench.decompose import decompose
from flashinfer_bench.decompose.catalogue import identity_of

if TYPE_CHECKING:
    from pathlib import Path


class _Norm(nn.Module):
    def __init__(self, width: int, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.dim = dim

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.to(torch.float32)
        size = torch.rsqrt(wide.pow(2).mean(self.dim, keepdim=True) + 1e-5)
        return self.weight * (wide * size).to(x.dtype)


class _Block(nn.Module):
    def __init__(self, width: int = 16, dim: int = -1) -> None:
        super().__init__()
        self.norm, self.up = _Norm(width, dim), nn.Linear(width, 48)
        self.down, self.last = nn.Linear(24, width), nn.Linear(width, width)
        self.more = nn.ModuleList(nn.Linear(width, width) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total = x + self.last(x)
        gate, up = self.up(self.norm(total)).chunk(2, dim=-1)
        out = total + self.down(nn.functional.silu(gate) * up)
        for each in self.more:
            out = each(out)
        return out


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> TraceSet:
    folder = tmp_path_factory.mktemp("block") / "out"
    found = decompose(_Block().to(torch.bfloat16), (torch.randn(2, 5, 16).bfloat16(),))
    found.write(folder, levels=("kernel", "fusion"))
    assert found.verify(folder).passed
    return TraceSet.from_path(folder / "dataset")


@pytest.mark.parametrize(
    ("name", "tensors", "rows"),
    [
        ("rmsnorm_h16", "hidden_states weight → output", "batch_size"),
        (
            "fused_add_rmsnorm_h16",
            "hidden_states residual weight → output residual_out",
            "batch_size",
        ),
        ("silu_and_mul_i24", "gate_up → output", "num_tokens"),
    ],
)
def test_a_piece_has_the_published_form(
    dataset: TraceSet, name: str, tensors: str, rows: str
) -> None:
    definition = dataset.definitions[name]

    assert definition.op_type == name.rpartition("_")[0]
    assert f"{' '.join(definition.inputs)} → {' '.join(definition.outputs)}" == tensors
    assert [each.workload.axes for each in dataset.workloads[name]] == [{rows: 10}]


@pytest.mark.parametrize(
    ("name", "rounds_after", "rtol"),
    [
        ("rmsnorm_h16", "to, mul", 0.013),
        ("fused_add_rmsnorm_h16", "add, to, mul", 0.018),
        ("silu_and_mul_i24", "silu, mul", 0.013),
    ],
)
def test_a_kernel_may_round_once_where_the_model_rounds_several_times(
    dataset: TraceSet, name: str, rounds_after: str, rtol: float
) -> None:
    [workload] = [each.workload for each in dataset.workloads[name]]

    assert dataset.definitions[name].description.endswith(
        f" It rounds to bfloat16 after {rounds_after}."
    )
    assert workload.tolerance is not None
    assert workload.tolerance.rtol == rtol


def test_where_nothing_is_rounded_the_usual_tolerance_holds(tmp_path: Path) -> None:
    decompose(_Block(), (torch.randn(2, 5, 16),)).write(tmp_path / "out")

    found = TraceSet.from_path(tmp_path / "out" / "dataset")

    assert "rounds" not in found.definitions["rmsnorm_h16_f32"].description
    assert found.workloads["rmsnorm_h16_f32"][0].workload.tolerance is None


def test_the_sum_is_the_second_output_and_the_older_term_the_residual(dataset: TraceSet) -> None:
    definition = dataset.definitions["fused_add_rmsnorm_h16"]
    module: dict[str, object] = {}
    exec(definition.reference, module)
    new, residual = torch.randn(3, 16).bfloat16(), torch.randn(3, 16).bfloat16()
    weight = torch.ones(16).bfloat16()

    normed, total = module["run"](new, residual, weight)  # type: ignore[operator]

    assert torch.equal(total, new + residual)
    assert torch.allclose(normed.float().pow(2).mean(-1), torch.ones(3), atol=0.05)
    assert definition.inputs["residual"].description == "the model's input x"


@pytest.mark.parametrize("shape", [(2, 1, 16), (7, 16)])
def test_a_published_piece_is_known_again_however_many_dimensions_its_rows_have(
    dataset: TraceSet, shape: tuple[int, ...], tmp_path: Path
) -> None:
    found = decompose(_Block().to(torch.bfloat16), (torch.randn(shape).bfloat16(),))
    found.write(tmp_path / "out", levels=("kernel", "fusion"))
    other = TraceSet.from_path(tmp_path / "out" / "dataset")

    for name in ("rmsnorm_h16", "fused_add_rmsnorm_h16", "silu_and_mul_i24"):
        assert identity_of(other.definitions[name]) == identity_of(dataset.definitions[name])


def test_a_norm_over_another_dimension_than_the_last_keeps_its_own_form() -> None:
    found = decompose(_Block(dim=1).to(torch.bfloat16), (torch.randn(2, 16, 16).bfloat16(),))

    names = {piece.definition for piece in found.pieces.all}

    assert not any(name.startswith(("rmsnorm_h", "fused_add_rmsnorm_h")) for name in names)


def test_another_dtype_than_the_published_one_is_named() -> None:
    found = decompose(_Block(), (torch.randn(2, 5, 16),))

    names = {piece.definition for piece in found.pieces.all}

    assert {"rmsnorm_h16_f32", "fused_add_rmsnorm_h16_f32", "silu_and_mul_i24_f32"} <= names


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        (torch.float16, "gemm_n24_k16"),
        (torch.bfloat16, "gemm_n24_k16_bf16"),
        (torch.float32, "gemm_n24_k16_f32"),
    ],
)
def test_a_product_with_a_weight_is_the_published_gemm(
    tmp_path: Path, dtype: torch.dtype, name: str
) -> None:
    model = nn.Sequential(nn.Linear(16, 24, bias=False), nn.ReLU()).to(dtype)
    decompose(model, (torch.randn(2, 5, 16).to(dtype),)).write(tmp_path / "out")
    dataset = TraceSet.from_path(tmp_path / "out/dataset")

    definition = dataset.definitions[name]

    shapes = {each: spec.shape for each, spec in (definition.inputs | definition.outputs).items()}
    assert definition.op_type == "gemm"
    assert shapes == {"A": ["M", "K"], "B": ["N", "K"], "C": ["M", "N"]}
    assert [each.workload.axes for each in dataset.workloads[name]] == [{"M": 10}]


def test_a_product_with_a_bias_keeps_its_own_form() -> None:
    found = decompose(nn.Sequential(nn.Linear(16, 24), nn.ReLU()), (torch.randn(5, 16),))

    assert not any(piece.definition.startswith("gemm_") for piece in found.pieces.all)


def test_a_square_product_has_both_of_its_axes(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(16, 16, bias=False), nn.ReLU()).half()
    decompose(model, (torch.randn(5, 16).half(),)).write(tmp_path / "out")

    found = TraceSet.from_path(tmp_path / "out/dataset").definitions["gemm_n16_k16"]

    assert {name: found.const_axes.get(name) for name in ("N", "K")} == {"N": 16, "K": 16}
