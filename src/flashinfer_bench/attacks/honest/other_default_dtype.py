"""Torch's default dtype is another one, as libraries set it when they are imported.

how: `torch.set_default_dtype` at module level; inputs are made in the same process
family: honest
on: cpu, cuda
plays: rms_norm
"""

import torch

torch.set_default_dtype(torch.bfloat16)


def run(x, weight):
    return x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + 1e-6) * weight
