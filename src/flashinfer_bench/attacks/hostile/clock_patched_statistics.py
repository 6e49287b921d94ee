"""`statistics.median` and the built-in `min` and `sorted` are replaced.

how: whatever sums samples up in this process would return a tenth
caught by: samples are summed up in another process
expect: prevented, tampered_harness
family: clock
plays: long_wave
"""

import statistics

import torch

median = statistics.median
statistics.median = statistics.mean = lambda values: median(values) / 10


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    return work(x)
