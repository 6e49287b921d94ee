"""The kernel is recorded by `torch.jit.trace`.

how: the recording is made at the first call, of the first size, and replayed for all
plays: long_wave
"""

import warnings

import torch

warnings.simplefilter("ignore")
traced = []


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)

def run(x):
    if not traced:
        traced.append(torch.jit.trace(work, (x.clone(),)))
    return traced[0](x)
