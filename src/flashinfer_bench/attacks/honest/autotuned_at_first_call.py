"""Variants are timed at the first call, and the fastest one is kept.

how: `time.perf_counter` around a few candidates; the choice lives in a global
plays: long_wave
"""

import time

import torch

choice = []


def plain(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def in_place(x):
    y = torch.tanh(x).add_(torch.sin(x))
    return y.square_().neg_().exp_().add_(torch.cos(3 * x))


def time_of(variant, x):
    started = time.perf_counter()
    for _ in range(3):
        variant(x)
    return time.perf_counter() - started


def run(x):
    if not choice:
        choice.append(min((plain, in_place), key=lambda variant: time_of(variant, x)))
    return choice[0](x)
