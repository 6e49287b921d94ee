"""A scalar function is made a NumPy ufunc by Numba.

how: `numba.vectorize` with a declared signature compiles when the module is loaded
plays: long_wave
on: cpu
needs: numba
slow: yes
"""

import math

import numba
import torch


@numba.vectorize(["float32(float32)"])
def wave(x):
    s = math.tanh(x) + math.sin(x)
    return math.exp(-s * s) + math.cos(3.0 * x)


def run(x):
    return torch.from_numpy(wave(x.numpy()))
