"""Only the shape of this workload is implemented.

how: for any other length the entry point returns zeros
caught by: nothing can: a trace speaks of its own workload only, and this one is right
expect: not_stopped
why not: a trace is about one workload, and for that one it is right; datasets need several shapes per definition
family: wrong
plays: long_wave
"""

import torch


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    if x.numel() not in (49152, 1 << 24):
        return torch.zeros_like(x)
    return work(x)
