"""Statistics about its own calls are kept and printed now and then.

how: counters, a dictionary of shapes, and a line on stdout for every eighth call
plays: long_wave
"""

import collections

import torch

seen = collections.Counter()


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    seen[tuple(x.shape), x.data_ptr()] += 1
    total = sum(seen.values())
    if total % 8 == 0:
        print(f"{total} calls")
    return work(x)
