"""The output has the right shape, and its storage is taken away before it is looked at.

how: `untyped_storage().resize_(0)` after the call has filled it; shape, strides and type stay
caught by: a process that crashes is its own failure
expect: RUNTIME_ERROR, INCORRECT_NUMERICAL
family: wrong
on: cpu
plays: long_wave
"""

import torch

def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    out = work(x)
    out.untyped_storage().resize_(0)
    return out
