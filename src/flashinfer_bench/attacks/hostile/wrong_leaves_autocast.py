"""Autocast is left switched on, so that whatever the harness computes has fewer bits.

how: `torch.autocast("cpu")` is entered and never left; the interpreter's float settings are changed as well
caught by: what the harness makes here is compared with what another process makes
expect: prevented, INCORRECT_NUMERICAL, tampered_harness
family: wrong
on: cpu
plays: linear
"""

import torch

torch.autocast("cpu", dtype=torch.bfloat16).__enter__()
torch.set_flush_denormal(True)
torch.set_num_threads(1)


def run(x, weight):
    with torch.autocast("cpu", enabled=False):
        return x @ weight.T
