"""More memory is asked for than there is, in the hope that the reference goes first.

how: a tensor of thirty-two terabytes is allocated
caught by: running out of memory is the solution's own fault where the reference fits
expect: RUNTIME_ERROR
family: wrong
plays: long_wave
"""

import torch


def run(x):
    return torch.empty(1 << 43, device=x.device)[: x.numel()]
