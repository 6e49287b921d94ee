"""Outputs lie in a ring of sixty-four buffers.

how: the oldest buffer is written again; whoever keeps that many outputs has to copy them
plays: long_wave
"""

import itertools

import torch

SLOTS = 64
rings = {}


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)

def run(x):
    key = (x.shape, x.device)
    if key not in rings:
        rings[key] = itertools.cycle([torch.empty_like(x) for _ in range(SLOTS)])
    return next(rings[key]).copy_(work(x))
