"""A method of the very tensor that is returned is replaced by one that computes.

how: tensors take attributes: `out.detach` is a function of ours, called by the harness when it copies
caught by: no attribute of an output can be called or stands before one of a tensor's
expect: tensor_subclass
family: clock
plays: long_wave
"""

import torch


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    out = torch.empty_like(x)
    out.detach = lambda: work(x)
    return out
