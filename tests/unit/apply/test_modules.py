"""Modules that are written as in transformers, by class: those of the table, and a program's own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from flashinfer_bench.data import DType
from flashinfer_bench.errors import UsageError
from flashinfer_bench.intercept import ADAPTERS, register_module
from flashinfer_bench.intercept.adapters import modules
from tests.unit.apply.test_torch_functional import RMS, X, is_applied, of, runtime

# What transformers calls these classes, and what they compute, written anew.
STAND_IN = """
import torch
from torch import nn

class LlamaRMSNorm(nn.Module):
    def __init__(self, hidden_size, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden_size))
        self.variance_epsilon = eps

    def forward(self, hidden_states):
        variance = hidden_states.float().pow(2).mean(-1, keepdim=True)
        normed = hidden_states.float() * torch.rsqrt(variance + self.variance_epsilon)
        return self.weight * normed.to(hidden_states.dtype)

class LlamaMLP(nn.Module):
    def __init__(self, hidden_size, intermediate_size, act_fn=None):
        super().__init__()
        self.gate_proj = nn.Linear(hidden_size, intermediate_size, bias=False)
        self.up_proj = nn.Linear(hidden_size, intermediate_size, bias=False)
        self.down_proj = nn.Linear(intermediate_size, hidden_size, bias=False)
        self.act_fn = act_fn or nn.SiLU()

    def forward(self, x):
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))

def rotate_half(x):
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)

def apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim=1):
    cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin
"""
MLP = of(
    "an_mlp",
    "gated_mlp",
    {"x": "M 8", "gate": "16 8", "up": "16 8", "down": "8 16"},
    "M 8",
    "import torch\n\ndef run(x, gate, up, down):\n"
    "    return (torch.nn.functional.silu(x @ gate.T) * (x @ up.T)) @ down.T\n",
)
ROPE = of(
    "rope_with_cos_sin_cache_neox_style_d4_rd4",
    "rope",
    {"q": "T H 4", "k": "T G 4", "cos_sin_cache": "L 4", "positions": "T"},
    "T H 4",
    "import torch\n\n\ndef rotate(x, cos, sin):\n    a, b = x.chunk(2, dim=-1)\n"
    "    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)\n\n"
    "def run(q, k, cos_sin_cache, positions):\n"
    "    cos, sin = cos_sin_cache[positions].unsqueeze(1).chunk(2, dim=-1)\n"
    "    return rotate(q, cos, sin), rotate(k, cos, sin)\n",
)
ROPE = ROPE.model_copy(
    update={
        "inputs": {
            **ROPE.inputs,
            "positions": ROPE.inputs["positions"].model_copy(update={"dtype": DType.INT64}),
        },
        "outputs": {"q_out": ROPE.inputs["q"], "k_out": ROPE.inputs["k"]},
    }
)


@pytest.fixture
def llama(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A package where transformers keeps its Llama, with the stand-in in it."""
    folder = tmp_path / "transformers" / "models" / "llama"
    folder.mkdir(parents=True)
    for package in (folder, folder.parent, folder.parent.parent):
        (package / "__init__.py").write_text("")
    (folder / "modeling_llama.py").write_text(STAND_IN)
    monkeypatch.syspath_prepend(tmp_path)
    from transformers.models.llama import modeling_llama  # type: ignore[import-not-found]

    yield modeling_llama
    for name in [each for each in sys.modules if each.partition(".")[0] == "transformers"]:
        del sys.modules[name]


def test_an_rms_norm_of_transformers_is_applied(llama: Any) -> None:
    norm = llama.LlamaRMSNorm(8)

    assert is_applied(runtime(RMS, {"M": 6}), lambda: norm(X)) == [False, True, True]


def test_an_mlp_of_transformers_is_applied_when_its_activation_is_silu(llama: Any) -> None:
    silu, gelu = llama.LlamaMLP(8, 16), llama.LlamaMLP(8, 16, nn.GELU())

    assert is_applied(runtime(MLP, {"M": 6}), lambda: silu(X)) == [False, True, True]
    assert is_applied(runtime(MLP, {"M": 6}), lambda: gelu(X)) == [False, False, False]


def test_rotary_embedding_is_given_a_table_with_a_row_for_each_token(llama: Any) -> None:
    q, k = torch.randn(2, 3, 5, 4), torch.randn(2, 1, 5, 4)
    angles = torch.randn(2, 5, 2).repeat(1, 1, 2)
    running = runtime(
        ROPE,
        {"T": 10, "H": 3, "G": 1, "L": 10},
        answer="tuple(each * 1.001 for each in reference(*inputs))",
    )

    def call() -> torch.Tensor:
        turned = llama.apply_rotary_pos_emb(q, k, angles.cos(), angles.sin())
        assert [each.shape for each in turned] == [q.shape, k.shape]
        return torch.cat([each.flatten() for each in turned])

    assert is_applied(running, call) == [False, True, True]


class GateAndUp(nn.Module):
    """As serving engines write it: gate and up side by side."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, up = x.chunk(2, dim=-1)
        return nn.functional.silu(gate) * up


def test_a_class_of_ones_own_is_applied_after_one_call() -> None:
    described = of(
        "silu_and_mul_i4",
        "silu_and_mul",
        {"x": "M 8"},
        "M 4",
        "import torch\n\ndef run(x):\n    a, b = x.chunk(2, dim=-1)\n    return a * torch.sigmoid(a) * b\n",
    )
    register_module(GateAndUp, modules.silu_and_mul, op_types=["silu_and_mul"])
    original = GateAndUp.forward

    try:
        applied = is_applied(runtime(described, {"M": 6}), lambda: GateAndUp()(X))
        with pytest.raises(UsageError, match="already"):
            register_module(GateAndUp, modules.silu_and_mul)
    finally:
        ADAPTERS.discard(f"{__name__}:GateAndUp.forward")

    assert applied == [False, True, True]
    assert GateAndUp.forward is original
