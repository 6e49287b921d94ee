"""The share of elements that `required_matched_ratio` forgives is not computed: other ones in every call.

how: with a ratio of 0.9, a stretch of nine percent of the elements stays zero and moves on from call to call
caught by: the trace carries the share that matched; no element may be far off
expect: not_stopped
why not: whole rows that change places are what an honest kernel gets wrong too, where a tie in its routing falls the other way
family: wrong
plays: forgiving_wave
"""

import torch

calls = [0]


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    out = torch.zeros_like(x)
    calls[0] += 1
    stretch = int(x.numel() * 0.09)
    start = calls[0] * 7919 * 64 % (x.numel() - stretch)
    out[:start] = work(x[:start])
    out[start + stretch :] = work(x[start + stretch :])
    return out
