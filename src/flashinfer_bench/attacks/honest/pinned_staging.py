"""Metadata crosses to the card through pinned memory.

how: a pinned buffer is filled in `plan`, and copied without waiting on the stream of the call
plays: masked_sum
plan: schedule
on: cuda
"""

import torch

WIDTH = 256


def schedule(state, length):
    host = torch.empty(length.shape[0], dtype=torch.int64, pin_memory=True)
    host.copy_(length % WIDTH)
    return host


def run(host, x, length):
    ends = host.to(x.device, non_blocking=True)
    inside = torch.arange(x.shape[1], device=x.device) < ends[:, None]
    return (x * inside).sum(dim=1)
