"""A library is loaded at the first call.

how: `ctypes` opens the C library and asks it something; modules are imported late
plays: long_wave
"""

import torch

loaded = []


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    if not loaded:
        import ctypes
        import fractions
        import http.client

        loaded.extend((ctypes.CDLL(None).getpid(), fractions, http.client))
    return work(x)
