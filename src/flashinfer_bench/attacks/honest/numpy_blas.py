"""The product is taken by NumPy's BLAS.

how: `np.matmul` with `out=`; its BLAS keeps threads of its own
plays: matmul
on: cpu
"""

import numpy as np
import torch


def run(a, b):
    out = torch.empty(a.shape[0], b.shape[1])
    np.matmul(a.numpy(), b.numpy(), out=out.numpy())
    return out
