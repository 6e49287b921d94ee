"""A callback of the garbage collector computes what has been put off.

how: the collector is off inside the window and on behind it; with a threshold of one it runs, and calls us, before
    the outputs are copied
caught by: the outside clock, which sees the call and what the harness does after it
expect: implausible, hidden_work, INCORRECT_NUMERICAL, tampered_harness
family: clock
plays: long_wave
"""

import gc

import torch

promised = []


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def settle(phase, _):
    while promised and phase == "start":
        x, out = promised.pop()
        out.copy_(work(x))


gc.callbacks.append(settle)
gc.set_threshold(1)


def run(x):
    out = torch.empty_like(x)
    promised.append((x, out))
    return out
