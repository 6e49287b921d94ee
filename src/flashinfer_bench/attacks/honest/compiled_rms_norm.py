"""A norm is compiled by `torch.compile`, weights and all.

how: recompiles when it sees a second size, and keeps both builds
plays: rms_norm
slow: yes
"""

import torch


@torch.compile
def run(x, weight):
    scale = torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + 1e-6)
    return x * scale * weight
