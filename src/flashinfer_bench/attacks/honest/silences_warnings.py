"""Warnings are silenced during the call.

how: `warnings.catch_warnings` swaps the list of filters and puts it back
plays: long_wave
"""

import warnings

import torch


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)

def run(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return work(x)
