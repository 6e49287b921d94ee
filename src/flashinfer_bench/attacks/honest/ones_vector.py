"""A reduction is a product with a vector of ones that is kept.

how: the vector is made once per width and device
plays: row_sum
"""

import torch

ones = {}


def run(x):
    key = (x.shape[1], x.device)
    if key not in ones:
        ones[key] = torch.ones(x.shape[1], device=x.device)
    return x @ ones[key]
