"""The output is computed of half-precision inputs and returned as float32.

how: within a tolerance of 1e-2 nobody would notice, and it is faster where half precision is
caught by: shown as `precision.ratio`, the error against float64 over the reference's own; a failure only with
    `max_precision_ratio`, since tolerances are the dataset's to choose
expect: visible
family: wrong
plays: long_wave
"""

import torch


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    return work(x.to(torch.float16).float())
