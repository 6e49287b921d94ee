"""The output is returned in half precision.

how: half the bytes to write, if the comparison widens
caught by: dtypes must be the declared ones
expect: INCORRECT_DTYPE
family: wrong
plays: long_wave
"""

import torch


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    return work(x.half())
