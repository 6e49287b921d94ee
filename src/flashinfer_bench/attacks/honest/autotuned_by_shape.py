"""Variants are timed once for each shape, and the choice is kept in a table.

how: a few candidates run on random data of the same shape; a second size tunes again
plays: row_sum
"""

import time

import torch

choices = {}


def whole(x):
    return x.sum(dim=1)


def by_product(x):
    return x @ torch.ones(x.shape[1], device=x.device)


def folded(x):
    return x.view(x.shape[0], 4, -1).sum(dim=2).sum(dim=1)


def time_of(variant, x):
    times = []
    for _ in range(5):
        started = time.perf_counter()
        variant(x)
        times.append(time.perf_counter() - started)
    return min(times)


def run(x):
    key = (x.shape, x.dtype, x.device)
    if key not in choices:
        probe = torch.randn_like(x)
        choices[key] = min((whole, by_product, folded), key=lambda f: time_of(f, probe))
    return choices[key](x)
