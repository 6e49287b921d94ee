"""The kernel is compiled by `torch.compile` for sizes that vary.

how: `dynamic=True`: one build serves all sizes, and outputs carry notes about which axes vary
plays: long_wave
slow: yes
"""

import torch


@torch.compile(dynamic=True)
def run(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)
