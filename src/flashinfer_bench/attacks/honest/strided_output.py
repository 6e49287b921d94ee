"""The output is every second column of a wider result.

how: a padded buffer is filled, and a strided view of it returned: a note, not a violation
plays: matmul
"""

import torch


def run(a, b):
    wide = torch.empty(a.shape[0], 2 * b.shape[1], device=a.device)
    wide[:, ::2] = a @ b
    return wide[:, ::2]
