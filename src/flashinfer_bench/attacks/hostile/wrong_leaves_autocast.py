"""Autocast is left switched on, so that whatever the harness computes has fewer bits.

how: `torch.autocast("cpu")` is entered and never left; denormals are flushed as well
caught by: what the harness makes here is compared with what another process makes
expect: prevented, INCORRECT_NUMERICAL, tampered_harness
family: wrong
on: cpu
plays: linear
"""

import torch

torch.autocast("cpu", dtype=torch.bfloat16).__enter__()
torch.set_flush_denormal(True)


def run(x, weight):
    with torch.autocast("cpu", enabled=False):
        return x @ weight.T
