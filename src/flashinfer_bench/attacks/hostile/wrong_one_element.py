"""One element in fifty thousand is not computed.

how: sampling a few elements would miss it
caught by: all elements of a checked call are compared
expect: INCORRECT_NUMERICAL
family: wrong
plays: long_wave
"""

import torch


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    out = work(x)
    out[4321] = 7.0
    return out
