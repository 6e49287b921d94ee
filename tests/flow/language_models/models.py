"""Language models, small: configurations as files in KernelBench's format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

_COMMON = {
    "vocab_size": 96,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
}
_OWN = {
    "Llama": {},
    "Mistral": {"head_dim": 16},
    "Qwen3": {"head_dim": 16},
    "Gemma3": {"head_dim": 16, "query_pre_attn_scalar": 16, "layer_types": ["full_attention"]},
    "Mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2},
}
NAMES = tuple(_OWN)

_FILE = """
import torch
from torch import nn
from transformers import {config}, {name}ForCausalLM


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = {name}ForCausalLM({config}(**{sizes!r})).eval()

    def forward(self, tokens):
        return self.model(input_ids=tokens, use_cache=False).logits


def get_inputs():
    return [torch.randint(0, 96, (2, 24))]


def get_init_inputs():
    return []
"""


def write(name: str, folder: Path, **sizes: Any) -> Path:
    """Write a model's file, with other sizes than the common ones if need be."""
    config = "Gemma3TextConfig" if name == "Gemma3" else f"{name}Config"
    file = folder / f"{name.lower()}.py"
    file.write_text(_FILE.format(config=config, name=name, sizes=_COMMON | _OWN[name] | sizes))
    return file
