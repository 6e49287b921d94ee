"""The first output serves all calls of the process, in the very same memory.

how: a module global holds the tensor; nothing is even copied
caught by: a secret share of the timed calls is checked
expect: failed_audit
family: replay
plays: long_wave
"""

import torch

first = None


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    global first
    if first is None:
        first = work(x)
    return first
