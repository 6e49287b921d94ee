"""Infinity is returned for a share of the elements.

how: a relative error against infinity, or of infinity, may come out as NaN
caught by: infinities must be where the reference has them, with the same sign
expect: INCORRECT_NUMERICAL
family: wrong
plays: long_wave
"""

import torch


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    out = work(x)
    out[::7] = float("inf")
    return out
