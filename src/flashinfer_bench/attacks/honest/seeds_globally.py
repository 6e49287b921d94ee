"""The global random generator is seeded in every call.

how: `torch.manual_seed` and `random.seed` before the work, as reproducible training code does
plays: long_wave
"""

import random

import torch


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    torch.manual_seed(0)
    random.seed(0)
    return work(x)
