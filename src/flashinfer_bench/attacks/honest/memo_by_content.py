"""Results are kept under the content of their inputs, and never found.

how: a digest of all bytes is the key of a small cache
expect: PASSED
family: honest
on: cpu
plays: long_wave
"""

import hashlib

import torch

cache = {}

def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    key = hashlib.blake2b(x.numpy().data, digest_size=16).digest()
    if key not in cache:
        if len(cache) > 8:
            cache.clear()
        cache[key] = work(x)
    return cache[key].clone()
