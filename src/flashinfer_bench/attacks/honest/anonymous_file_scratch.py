"""Scratch memory lies in an anonymous file.

how: `memfd_create` and `mmap`, as programs share memory; written anew in every call
plays: long_wave
on: cpu
"""

import mmap
import os

import torch

scratch = {}


def shared(count):
    descriptor = os.memfd_create("scratch")
    try:
        os.ftruncate(descriptor, 4 * count)
        memory = mmap.mmap(descriptor, 4 * count)
    finally:
        os.close(descriptor)
    return torch.frombuffer(memory, dtype=torch.float32)


def run(x):
    count = x.numel()
    if count not in scratch:
        scratch[count] = shared(count)
    kept = scratch[count]
    torch.tanh(x, out=kept)
    kept.add_(torch.sin(x)).square_().neg_().exp_()
    return kept + torch.cos(3 * x)
