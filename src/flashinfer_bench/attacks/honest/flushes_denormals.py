"""Denormal numbers are flushed to zero in the process.

how: `torch.set_flush_denormal(True)` when the module is loaded
expect: PASSED
family: honest
on: cpu
plays: long_wave
"""

import torch

torch.set_flush_denormal(True)

def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    return work(x)
