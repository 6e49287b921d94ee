"""The kernel is compiled by `torch.compile` in its default mode.

how: the compiler runs at the first call and keeps guards, code and constants
plays: long_wave
slow: yes
"""

import torch


@torch.compile
def run(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)
