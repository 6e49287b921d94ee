"""A plan is made of the lengths, in `plan`.

how: the mask depends on metadata only, and is passed to every call as its state
plan: schedule
plays: masked_sum
"""

import torch

WIDTH = 256


def schedule(state, length):
    return (torch.arange(WIDTH, device=length.device) < (length % WIDTH)[:, None]).float()


def run(mask, x, length):
    return torch.linalg.vecdot(x, mask)
