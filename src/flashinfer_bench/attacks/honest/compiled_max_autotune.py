"""The product is compiled by `torch.compile` with autotuning and without graphs.

how: several kernels are built and timed at the first call
plays: matmul
slow: yes
"""

import torch


@torch.compile(mode="max-autotune-no-cudagraphs")
def run(a, b):
    return a @ b
