"""A large package is imported by the first call.

how: `scipy.special` within the call
expect: PASSED
family: honest
on: cpu
plays: long_wave
needs: scipy
"""

import torch


def run(x):
    import scipy.special  # noqa: F401

    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)
