"""A few sampled elements, normalised by the first, are taken as a fingerprint.

how: content is a scaled window of one pool, so ratios of neighbours would come back if windows did
caught by: sixteen thousand windows per pool; the one that comes back is not worth the look-up
expect: prevented, failed_audit
family: replay
plays: long_wave
"""

import torch

kept = {}


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    key = tuple(round(value, 3) for value in (x[:64:16] / x[0]).tolist())
    if key not in kept:
        kept.clear()
        kept[key] = work(x)
    return kept[key].clone()
