"""A part of the result is computed as a derivative.

how: `torch.func.grad` of a sum builds and drops an autograd graph in every call
plays: long_wave
"""

import torch

slope = torch.func.grad(lambda x: torch.sin(3 * x).sum() / 3)


def run(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + slope(x)
