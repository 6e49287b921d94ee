"""The share of elements that `required_matched_ratio` forgives is not computed.

how: with a ratio of 0.9, nine percent of the elements stay zero: the same ones in every call
caught by: the trace carries the share that matched; no element may be far off
expect: INCORRECT_NUMERICAL, not_stopped
why not: a dataset that forgives a share of the elements forgives it to everyone; the matched ratio is in the trace
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
