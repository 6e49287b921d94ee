"""A block of transformers is the kernel.

how: `LlamaMLP` with the weights it is given; its parameters require gradients
plays: gated_mlp
needs: transformers
slow: yes
"""

import torch
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaMLP

blocks = {}


def run(x, gate, up, down):
    key = (gate.shape, x.device)
    if key not in blocks:
        config = LlamaConfig(hidden_size=gate.shape[1], intermediate_size=gate.shape[0])
        blocks[key] = LlamaMLP(config).to(x.device)
    weights = {"gate_proj.weight": gate, "up_proj.weight": up, "down_proj.weight": down}
    return torch.func.functional_call(blocks[key], weights, (x,))
