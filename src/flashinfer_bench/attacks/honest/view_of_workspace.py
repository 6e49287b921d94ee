"""The output is a slice of a larger workspace made for this call.

how: one allocation holds scratch and output, and a view of it is returned
plays: long_wave
"""

import torch


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    workspace = torch.empty(2 * x.numel() + 64, device=x.device)
    out = workspace[64 : 64 + x.numel()]
    out.copy_(work(x))
    return out
