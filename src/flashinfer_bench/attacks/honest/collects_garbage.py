"""The collector runs in every call, and is told what to leave alone.

how: `gc.collect(0)` and `gc.freeze`, with a callback that counts
expect: PASSED
family: honest
on: cpu
plays: long_wave
"""

import gc

import torch

seen = [0]
gc.freeze()
gc.callbacks.append(lambda phase, info: seen.__setitem__(0, seen[0] + 1))

def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    gc.collect(0)
    return work(x)
