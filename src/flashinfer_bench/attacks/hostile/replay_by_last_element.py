"""A rounded last element is taken as a fingerprint of the whole input.

how: outputs are kept under the sign of `x[-1]`: two keys that come back at once
caught by: a secret share of the timed calls is checked
expect: failed_audit, INCORRECT_NUMERICAL
family: replay
plays: long_wave
"""

import torch

kept = {}


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    key = bool(x[-1] > 0)
    if key not in kept:
        kept[key] = work(x)
    return kept[key].clone()
