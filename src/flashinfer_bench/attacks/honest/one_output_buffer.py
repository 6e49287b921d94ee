"""One output buffer serves all calls.

how: the buffer is allocated at the first call, filled by each, and returned: a note, not a violation
plays: long_wave
"""

import torch

buffers = {}


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    if x.shape not in buffers:
        buffers[x.shape] = torch.empty_like(x)
    out = buffers[x.shape]
    out.copy_(work(x))
    return out
