"""The product is computed tile by tile.

how: loops in Python over blocks of rows and columns fill one output
plays: matmul
on: cpu
"""

import torch

ROWS, COLUMNS = 64, 96


def run(a, b):
    out = torch.empty(a.shape[0], b.shape[1], device=a.device)
    for row in range(0, a.shape[0], ROWS):
        for column in range(0, b.shape[1], COLUMNS):
            tile = out[row : row + ROWS, column : column + COLUMNS]
            tile.copy_(a[row : row + ROWS] @ b[:, column : column + COLUMNS])
    return out
