"""A small Llama of transformers with random weights, in the form that `flashinfer-bench decompose` reads.

One thing is as engines have it and transformers does not: the activation of the MLP is one function, `silu_and_mul`.
"""

import torch
import torch.nn.functional as F
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.models.llama.modeling_llama import LlamaMLP

BATCH, PROMPT = 8, 64
SIZES = {
    "vocab_size": 2048,
    "hidden_size": 128,
    "intermediate_size": 352,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-5,
}


def silu_and_mul(gate, up):
    return F.silu(gate) * up


class MLP(LlamaMLP):
    def forward(self, x):
        return self.down_proj(silu_and_mul(self.gate_proj(x), self.up_proj(x)))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = LlamaForCausalLM(LlamaConfig(**SIZES)).eval()
        for layer in self.model.model.layers:
            layer.mlp.__class__ = MLP

    def forward(self, tokens):
        return self.model(input_ids=tokens, use_cache=False).logits


def get_inputs():
    return [torch.randint(0, SIZES["vocab_size"], (BATCH, PROMPT))]


def get_init_inputs():
    return []
