"""The first call warms itself up on data of its own.

how: the kernel runs a few times on random numbers before it touches its input
plays: long_wave
"""

import torch

warm = []


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    if not warm:
        for _ in range(3):
            warm.append(work(torch.randn_like(x)).sum())
    return work(x)
