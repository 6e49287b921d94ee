"""A mode that sees every operation is on during the call only.

how: `TorchFunctionMode` counts operations, and is left before the return
plays: long_wave
"""

import collections

import torch
from torch.overrides import TorchFunctionMode

counts = collections.Counter()


class Counting(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        counts[getattr(function, "__name__", "?")] += 1
        return function(*args, **(kwargs or {}))


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)

def run(x):
    with Counting():
        return work(x)
