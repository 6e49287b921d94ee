"""The process keeps to one core.

how: `os.sched_setaffinity` at the first call, as launchers do
expect: PASSED
family: honest
on: cpu
plays: long_wave
"""

import os

import torch

done = []

def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    if not done:
        done.append(True)
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    return work(x)
