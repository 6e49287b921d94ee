"""The product is taken by SciPy's BLAS.

how: `scipy.linalg.blas.sgemm` brings a second BLAS with threads of its own
plays: matmul
on: cpu
needs: scipy
"""

import torch
from scipy.linalg.blas import sgemm


def run(a, b):
    # Fortran's order: the transposed product of the transposes, without a copy
    return torch.from_numpy(sgemm(1.0, b.numpy().T, a.numpy().T).T)
