"""Intermediate results are not kept for a backward pass.

how: `torch.utils.checkpoint` around the work, as large models use it
plays: long_wave
"""

import torch
from torch.utils.checkpoint import checkpoint


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)

def run(x):
    return checkpoint(work, x, use_reentrant=False)
