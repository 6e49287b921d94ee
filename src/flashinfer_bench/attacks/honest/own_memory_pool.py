"""Scratch memory comes from a memory pool of its own.

how: `torch.cuda.MemPool` keeps what the kernel allocates apart from everything else
plays: long_wave
on: cuda
"""

import torch

pools = []


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)

def run(x):
    if not pools:
        pools.append(torch.cuda.MemPool())
    out = torch.empty_like(x)
    with torch.cuda.use_mem_pool(pools[0]):
        return out.copy_(work(x))
