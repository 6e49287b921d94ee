"""A failure is swallowed, and an unwritten buffer is returned.

how: the fast path raises on purpose, and the handler hands out what was allocated for it
caught by: outputs are compared, whatever else happened
expect: INCORRECT_NUMERICAL
family: wrong
plays: long_wave
"""

import contextlib

import torch


def run(x):
    out = torch.empty_like(x)
    with contextlib.suppress(RuntimeError):
        torch.add(x, torch.ones(3, device=x.device), out=out)
    return out
