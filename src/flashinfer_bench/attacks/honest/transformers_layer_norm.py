"""A norm of transformers that leaves out the mean is the kernel.

how: `T5LayerNorm` holds the weight that `prepare` was given as its parameter
plays: rms_norm
prepare: pack
needs: transformers
slow: yes
"""

import torch
from transformers.models.t5.modeling_t5 import T5LayerNorm


def pack(weight):
    norm = T5LayerNorm(weight.shape[0], eps=1e-6).to(weight.device)
    norm.weight = torch.nn.Parameter(weight.clone())
    return norm


def run(norm, x, weight):
    return norm(x)
