"""A table of masks is kept in a file that is mapped into memory.

how: one row a length, written to the temporary folder at the first call; it depends on sizes, not on content
plays: masked_sum
on: cpu
"""

import mmap
import tempfile

import numpy as np
import torch

tables = {}


def mapped(width):
    table = np.tri(width, width, -1, dtype=np.float32)
    with tempfile.TemporaryFile() as file:
        file.write(table.tobytes())
        file.flush()
        memory = mmap.mmap(file.fileno(), 0)
    return torch.frombuffer(memory, dtype=torch.float32).view(width, width)


def run(x, length):
    width = x.shape[1]
    if width not in tables:
        tables[width] = mapped(width)
    return torch.linalg.vecdot(x, tables[width][(length % width).long()])
