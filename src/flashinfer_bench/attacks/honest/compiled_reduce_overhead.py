"""The kernel is compiled by `torch.compile` in the mode that reduces overhead.

how: on CUDA its graphs keep static input and output buffers
plays: long_wave
slow: yes
"""

import torch


@torch.compile(mode="reduce-overhead")
def compiled(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    return compiled(x).clone()
