"""A fast path that raises is caught, and the slow path taken.

how: an operator that the device lacks is tried in every call
plays: long_wave
"""

import torch


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    try:
        return torch.ops.no_such_library.wave(x)
    except (AttributeError, RuntimeError):
        return work(x)
