"""A cache keeps what depends on shapes only.

how: `functools.lru_cache` over sizes returns a launch configuration
plays: row_sum
"""

import functools


@functools.lru_cache(maxsize=None)
def chunks(rows, width):
    return max(1, rows * width // 65536)


def run(x):
    import torch

    return torch.cat([part.sum(dim=1) for part in x.chunk(chunks(*x.shape))])
