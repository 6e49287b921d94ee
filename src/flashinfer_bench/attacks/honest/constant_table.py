"""A table of constants is kept under shape and device.

how: like the cosines of a rotary embedding: it depends on sizes, not on content
plays: masked_sum
"""

import torch

tables = {}


def run(x, length):
    key = (x.shape[1], x.device)
    if key not in tables:
        tables[key] = torch.arange(x.shape[1], device=x.device)
    return torch.where(tables[key] < (length % x.shape[1])[:, None], x, 0.0).sum(dim=1)
