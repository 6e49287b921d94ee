"""Warm-up calls return at once, so that a sample has many calls and a slow reference runs out of time.

how: how many calls a sample has follows from how long warm-up calls took, and what those return is not checked; later calls are
    honest
caught by: the slowest side bounds how many calls a sample has
expect: prevented
family: clock
on: cpu
plays: long_wave
"""

import torch

calls = [0]


def run(x):
    calls[0] += 1
    if 2 <= calls[0] <= 4:
        return torch.empty_like(x)
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)
