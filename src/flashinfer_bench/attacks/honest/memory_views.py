"""Memory is handed over as buffers.

how: `memoryview` slices of the input are wrapped again by `torch.frombuffer`
plays: long_wave
on: cpu
"""

import torch

PIECES = 4


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)

def run(x):
    view = memoryview(x.numpy())
    step = -(-len(view) // PIECES)
    pieces = (view[start : start + step] for start in range(0, len(view), step))
    return torch.cat([work(torch.frombuffer(piece, dtype=torch.float32)) for piece in pieces])
