"""All descriptors are closed, the shared memory's pages are given back, and the call returns.

how: `os.closerange` within a timed call
caught by: a channel that closes ends the job
expect: RUNTIME_ERROR
family: theft
on: cpu
plays: long_wave
"""

import os

import torch

calls = [0]

def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    calls[0] += 1
    if calls[0] == 9:
        os.closerange(0, 4096)
    return work(x)
