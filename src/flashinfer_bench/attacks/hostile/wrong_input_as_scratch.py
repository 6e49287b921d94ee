"""The input is used as scratch memory: right, and destructive.

how: in-place operations on `x` save an allocation
caught by: inputs are fingerprinted before and after
expect: changed_inputs
family: wrong
plays: long_wave
"""

import torch


def run(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(x.mul_(3))
