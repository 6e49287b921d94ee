"""The work is done by NumPy on the tensor's memory.

how: `x.numpy()` shares memory, and `torch.from_numpy` wraps the result
on: cpu
plays: long_wave
"""

import numpy as np
import torch


def run(x):
    values = x.numpy()
    y = np.tanh(values) + np.sin(values)
    return torch.from_numpy(np.exp(-y * y) + np.cos(3 * values))
