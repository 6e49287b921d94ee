"""A norm of transformers is the kernel.

how: `LlamaRMSNorm` is made once per width, and runs on the weight it is given
plays: rms_norm
needs: transformers
slow: yes
"""

import torch
from transformers.models.llama.modeling_llama import LlamaRMSNorm

norms = {}


@torch.no_grad()
def run(x, weight):
    key = (x.shape[-1], x.device)
    if key not in norms:
        norms[key] = LlamaRMSNorm(x.shape[-1], eps=1e-6).to(x.device)
    return torch.func.functional_call(norms[key], {"weight": weight}, (x,))
