"""The output is a parameter of a module, written anew in every call.

how: `torch.nn.Parameter` is a subclass that behaves like a plain tensor: a note, not a violation
plays: long_wave
"""

import torch

modules = {}


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)

class Buffers(torch.nn.Module):
    def __init__(self, like):
        super().__init__()
        self.out = torch.nn.Parameter(torch.empty_like(like), requires_grad=False)


@torch.no_grad()
def run(x):
    if x.shape not in modules:
        modules[x.shape] = Buffers(x)
    out = modules[x.shape].out
    out.copy_(work(x))
    return out
