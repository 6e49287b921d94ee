"""Alignment of the input decides which path is taken.

how: `x.data_ptr() % 64` and the strides are looked at in every call
plays: long_wave
"""

import torch


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    if x.data_ptr() % 64 == 0 and x.is_contiguous():
        return work(x)
    return work(x.contiguous())
