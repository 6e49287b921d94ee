"""The product is an `einsum` into a buffer that is kept.

how: `torch.mm` with `out=` for the buffer, and a copy for the caller
plays: matmul
"""

import torch

buffers = {}


def run(a, b):
    key = (a.shape[0], b.shape[1], a.device)
    if key not in buffers:
        buffers[key] = torch.empty(*key[:2], device=a.device)
    torch.mm(a, b, out=buffers[key])
    return torch.einsum("ij->ij", buffers[key]).clone()
