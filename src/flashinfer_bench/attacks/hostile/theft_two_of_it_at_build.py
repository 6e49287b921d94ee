"""The process becomes two while it is built, and both say that they are.

how: `os.fork` at module level
caught by: an answer that was not asked for ends the job
expect: RUNTIME_ERROR, COMPILE_ERROR
family: theft
on: cpu
plays: long_wave
"""

import os

import torch

os.fork()

def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    return work(x)
