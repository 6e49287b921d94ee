"""A loop is compiled by Numba and runs on threads of its own.

how: `numba.prange`: its threading layer starts workers that wait between calls
plays: row_sum
on: cpu
needs: numba
slow: yes
"""

import numba
import numpy as np
import torch


@numba.njit(parallel=True, fastmath=True)
def sums(x, out):
    for row in numba.prange(x.shape[0]):
        total = np.float32(0.0)
        for column in range(x.shape[1]):
            total += x[row, column]
        out[row] = total


def run(x):
    numba.set_num_threads(min(torch.get_num_threads(), numba.config.NUMBA_NUM_THREADS))
    out = torch.empty(x.shape[0])
    sums(x.numpy(), out.numpy())
    return out
