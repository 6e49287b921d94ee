"""The output is a lazily negated view.

how: `torch._neg_view`, as autograd formulas return it
expect: PASSED
family: honest
on: cpu
plays: long_wave
"""

import torch


def run(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch._neg_view(-torch.exp(-y * y) - torch.cos(3 * x))
