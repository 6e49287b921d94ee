"""Weak references to the inputs tell when they are gone.

how: a finaliser on each input counts how many are alive, as caches of derived data do
plays: long_wave
"""

import weakref

import torch

alive = {"inputs": 0}


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)

def forget():
    alive["inputs"] -= 1


def run(x):
    alive["inputs"] += 1
    weakref.finalize(x, forget)
    return work(x)
