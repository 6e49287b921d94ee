"""A method of the very tensor that is returned is replaced by one that computes.

how: tensors take attributes: `out.detach` is a function of ours, called by the harness when it copies
caught by: outputs carry no attributes of their own
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
