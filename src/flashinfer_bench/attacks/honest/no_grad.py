"""The kernel runs under `torch.no_grad`.

how: a decorator of the entry point
plays: long_wave
"""

import torch


@torch.no_grad()
def run(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)
