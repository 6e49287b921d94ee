"""Thread-local storage holds the first output.

how: all calls come from one thread
caught by: a secret share of the timed calls is checked, wherever state is kept
expect: failed_audit
family: replay
plays: long_wave
"""

import threading

import torch

local = threading.local()


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    if not hasattr(local, "kept"):
        local.kept = work(x)
    return local.kept.clone()
