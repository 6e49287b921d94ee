"""A wave is read from a table and interpolated.

how: a fine table is made once; each value lies between two of its entries
expect: PASSED
family: honest
on: cpu
plays: long_wave
"""

import torch

def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


grid = torch.linspace(-8, 8, 1 << 18)
table = work(grid)


def run(x):
    at = ((x + 8) * ((table.numel() - 1) / 16)).clamp_(0, table.numel() - 2)
    low = at.floor()
    index = low.to(torch.int64)
    near = torch.lerp(table[index], table[index + 1], at - low)
    return torch.where(x.abs() < 8, near, work(x))
