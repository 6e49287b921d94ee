"""Sorted rows take a shorter path.

how: whether all rows ascend is looked at in every call; if so the ends are the extremes
plays: row_extremes
"""

import torch


def run(x):
    if bool((x[:, 1:] >= x[:, :-1]).all()):
        return x[:, 0].clone(), x[:, -1].clone()
    low, high = torch.aminmax(x, dim=1)
    return low, high
