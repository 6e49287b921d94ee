"""Zeros are returned.

how: a tolerance wide enough for small outputs would let them pass
caught by: an element must be within the tolerances, not small
expect: INCORRECT_NUMERICAL
family: wrong
plays: long_wave
"""

import torch


def run(x):
    return torch.zeros_like(x)
