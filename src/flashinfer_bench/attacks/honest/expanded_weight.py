"""The weight is expanded and the product taken in batches.

how: `expand` gives the weight a dimension of stride zero; `bmm` reads it
expect: PASSED
family: honest
on: cpu
plays: linear
"""

import torch


def run(x, weight):
    halves = x.view(2, -1, x.shape[1])
    return torch.bmm(halves, weight.T.expand(2, -1, -1)).view(-1, weight.shape[0])
