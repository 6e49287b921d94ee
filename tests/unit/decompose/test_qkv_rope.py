"""Projections to queries, keys and values, their rotation and the cache's update: one fusion, as engines have it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

import flashinfer_bench as fib

_SIZES: dict[str, Any] = {
    "vocab_size": 128,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
}
_GROUPED = {**_SIZES, "num_key_value_heads": 2}
_LATENT = {
    "num_key_value_heads": 4, "q_lora_rank": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8,
    "v_head_dim": 16, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1,
    "moe_intermediate_size": 32,
}  # fmt: skip
_AS_GPT = {
    "vocab_size": 128, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64, "rotary_dim": 8,
}  # fmt: skip
_GATED = {
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "head_dim": 16,
    "num_dense_layers": 1,
}
PLAIN = ["linear", "linear", "linear", "apply_rotary_pos_emb", "cache_update"]
WITH_NORMS = ["linear", "rms_norm", "linear", "rms_norm", "linear", *PLAIN[3:]]


def decomposed(name: str, sizes: dict[str, Any]) -> fib.Decomposition:
    config = getattr(transformers, f"{name}Config")(**sizes)
    module = getattr(transformers, f"{name}ForCausalLM")(config).eval()
    return fib.decompose(module, (torch.randint(0, 100, (2, 8)),), name=name.lower())


def fusions_in(found: fib.Decomposition) -> list[list[str]]:
    """Name the kernels of each such fusion."""
    nodes = [each for each in found.tree.walk() if each.name.startswith("qkv_rope")]
    return [[leaf.name for leaf in node.walk() if leaf.is_leaf] for node in nodes]


@pytest.mark.parametrize(
    ("name", "sizes", "kernels"),
    [
        ("Llama", _GROUPED, PLAIN),
        ("Mistral", _GROUPED, PLAIN),
        ("Qwen3", {**_GROUPED, "head_dim": 16}, WITH_NORMS),
        # beside its attention, on the same input, is a network whose products belong to no attention
        ("Cohere", _GROUPED, PLAIN),
        # half of each head is rotated and joined with the other half
        ("Phi", _SIZES, [*PLAIN[:4], "cat", "cache_update"]),
        # rotates queries and keys by a call each
        ("GPTJ", _AS_GPT, [*PLAIN[:4], "apply_rotary_pos_emb", "cat", "cache_update"]),
        # has a gate of the same input, which is no part of it
        ("Afmoe", {**_GROUPED, **_GATED}, [*PLAIN[:3], "rms_norm", "rms_norm", *PLAIN[3:]]),
        # its projections do not read one input
        ("DeepseekV3", {**_SIZES, **_LATENT}, None),
    ],
)
def test_every_layer_has_one(name: str, sizes: dict[str, Any], kernels: list[str] | None) -> None:
    found = fusions_in(decomposed(name, sizes))

    assert found == ([] if kernels is None else [kernels, kernels])


def test_it_is_a_definition_of_its_own_and_verified(tmp_path: Path) -> None:
    found = decomposed("Llama", _GROUPED)
    written = found.write(tmp_path / "out", levels=("fusion",))

    (name,) = [each for each in written.definitions if each.startswith("qkv_rope_cache")]
    definition = fib.TraceSet.from_path(str(tmp_path / "out/dataset")).definitions[name]
    assert definition.op_type == "qkv_rope_cache"
    assert [each for each, axis in definition.axes.items() if axis.type == "var"] == [
        "batch_size",
        "seq_len",
    ]
    assert len(definition.outputs) == 3  # rotated queries, and what the cache holds
    assert found.verify(tmp_path / "out").passed


def test_the_rule_can_be_turned_off(tmp_path: Path) -> None:
    file = tmp_path / "overrides.yaml"
    file.write_text("rules:\n  qkv_rope: off\n")
    module = transformers.LlamaForCausalLM(transformers.LlamaConfig(**_GROUPED)).eval()

    found = fib.decompose(module, (torch.randint(0, 100, (2, 8)),), overrides=file)

    assert fusions_in(found) == []
