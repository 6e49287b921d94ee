"""The share of elements that `required_matched_ratio` forgives is not computed.

how: with a ratio of 0.9, nine percent of the elements stay zero: the same ones in every call
caught by: an element that is wrong in every call and has nothing to do with what was asked for is not an error to forgive
expect: failed_audit, INCORRECT_NUMERICAL
family: wrong
plays: forgiving_wave
"""

import torch


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    out = torch.zeros_like(x)
    count = int(x.numel() * 0.91)
    out[:count] = work(x[:count])
    return out
