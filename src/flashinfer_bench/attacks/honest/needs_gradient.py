"""The output carries an autograd graph.

how: a parameter of the module's own takes part in the computation
plays: long_wave
"""

import torch

one = torch.nn.Parameter(torch.ones(()))


def run(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x) * one.to(x.device)
