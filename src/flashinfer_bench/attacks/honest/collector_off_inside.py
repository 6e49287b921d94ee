"""The garbage collector is off during the call.

how: `gc.disable` around the work; it is switched on again only if it was on
plays: long_wave
"""

import gc

import torch


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)

def run(x):
    was_on = gc.isenabled()
    gc.disable()
    try:
        return work(x)
    finally:
        if was_on:
            gc.enable()
