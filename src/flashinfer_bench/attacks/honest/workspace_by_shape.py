"""A workspace is kept under the shape of the input.

how: scratch memory is allocated once per shape and overwritten by every call
plays: long_wave
"""

import torch

workspaces = {}


def run(x):
    key = (tuple(x.shape), x.dtype, x.device)
    if key not in workspaces:
        workspaces[key] = (torch.empty_like(x), torch.empty_like(x))
    first, second = workspaces[key]
    torch.tanh(x, out=first)
    torch.sin(x, out=second)
    first.add_(second).square_().neg_().exp_()
    return first + torch.cos(3 * x)
