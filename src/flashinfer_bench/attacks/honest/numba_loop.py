"""A loop is compiled by Numba.

how: `numba.njit` compiles at the first call and keeps machine code by the types of the arguments
plays: long_wave
on: cpu
needs: numba
slow: yes
"""

import math

import numba
import torch


@numba.njit(fastmath=True)
def loop(x, out):
    for i in range(x.shape[0]):
        s = math.tanh(x[i]) + math.sin(x[i])
        out[i] = math.exp(-s * s) + math.cos(3.0 * x[i])


def run(x):
    out = torch.empty_like(x)
    loop(x.numpy(), out.numpy())
    return out
