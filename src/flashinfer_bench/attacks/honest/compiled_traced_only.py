"""`torch.compile` traces, and the graph runs without generated code.

how: the backend `aot_eager`: guards and graphs, operators of torch
plays: long_wave
"""

import torch


@torch.compile(backend="aot_eager")
def run(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)
