"""The share that is forgiven is filled with nonsense.

how: with a ratio of 0.9, nine percent of the elements are a million
caught by: no forgiven element may be off by more than ten times the root mean square of the output
expect: INCORRECT_NUMERICAL
family: wrong
plays: forgiving_wave
"""

import torch


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    out = work(x)
    out[: int(x.numel() * 0.09)] = 1e6
    return out
