"""Windows of a row are views with strides of their own.

how: `as_strided` makes blocks of each row without a copy, and they are reduced in two steps
plays: row_extremes
"""

import torch

BLOCK = 32


def run(x):
    rows, width = x.shape
    blocks = x.as_strided((rows, width // BLOCK, BLOCK), (x.stride(0), BLOCK, 1))
    return blocks.amin(dim=2).amin(dim=1), blocks.amax(dim=2).amax(dim=1)
