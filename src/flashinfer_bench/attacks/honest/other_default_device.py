"""Torch's default device is named, as libraries set it when they are imported.

how: `torch.set_default_device` at module level, which is a mode that sees each call of torch
family: honest
on: cpu, cuda
plays: rms_norm
"""

import torch

torch.set_default_device("cuda" if torch.cuda.is_available() else "cpu")


def run(x, weight):
    return x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + 1e-6) * weight
