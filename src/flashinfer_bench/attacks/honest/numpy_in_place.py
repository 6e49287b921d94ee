"""NumPy's functions write into buffers that are kept.

how: scratch arrays by size, `out=` in every step, and one array made for the caller
plays: long_wave
on: cpu
"""

import numpy as np
import torch

scratch = {}


def run(x):
    values = x.numpy()
    if values.shape not in scratch:
        scratch[values.shape] = np.empty_like(values), np.empty_like(values)
    s, t = scratch[values.shape]
    np.tanh(values, out=s)
    np.sin(values, out=t)
    s += t
    np.multiply(s, s, out=s)
    np.negative(s, out=s)
    np.exp(s, out=s)
    np.multiply(values, np.float32(3), out=t)
    np.cos(t, out=t)
    return torch.from_numpy(s + t)
