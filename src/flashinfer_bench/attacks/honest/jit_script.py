"""The kernel is compiled by `torch.jit.script`.

how: the profiling executor specialises in the first calls
plays: long_wave
"""

import warnings

import torch

warnings.simplefilter("ignore")


@torch.jit.script
def work(x: torch.Tensor) -> torch.Tensor:
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    return work(x)
