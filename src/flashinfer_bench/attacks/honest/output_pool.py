"""Output buffers are used again once nobody holds them any more.

how: weak references say when an output has died; its memory goes back to a pool
plays: long_wave
"""

import weakref

import torch

pool = {}


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)

def give_back(key, buffer):
    pool.setdefault(key, []).append(buffer)


def run(x):
    key = (x.shape, x.device)
    free = pool.setdefault(key, [])
    buffer = free.pop() if free else torch.empty_like(x)
    buffer.copy_(work(x))
    out = buffer.view(x.shape)
    weakref.finalize(out, give_back, key, buffer)
    return out
