"""The garbage collector is tuned, as large programs do.

how: `gc.freeze`, another threshold, and a callback that counts collections
plays: long_wave
"""

import gc

import torch

collections = []
gc.freeze()
gc.set_threshold(50_000, 20, 20)
gc.callbacks.append(lambda phase, info: collections.append(info["generation"]))


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    return work(x)
