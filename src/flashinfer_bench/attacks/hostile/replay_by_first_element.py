"""The first element is taken as a fingerprint of the whole input.

how: outputs are kept under `x[0]`; a call that repeats its content would be free
caught by: content never repeats, so the key never comes back and every call is computed
expect: prevented
family: replay
plays: long_wave
"""

import torch

kept = {}


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    key = float(x[0])
    if key not in kept:
        kept.clear()
        kept[key] = work(x)
    return kept[key].clone()
