"""Each output lies in a mapping of its own.

how: `mmap` for each call; the pages go back when the output dies
expect: PASSED
family: honest
on: cpu
plays: long_wave
"""

import mmap

import torch

def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    memory = mmap.mmap(-1, max(4096, x.numel() * 4))
    out = torch.frombuffer(memory, dtype=torch.float32, count=x.numel()).view(x.shape)
    y = torch.tanh(x).add_(torch.sin(x))
    torch.exp(-y * y, out=out)
    return out.add_(torch.cos(3 * x))
