"""The output is a view of a `bytearray`.

how: `torch.frombuffer` of Python's own memory
expect: PASSED
family: honest
on: cpu
plays: long_wave
"""

import torch

def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    out = torch.frombuffer(bytearray(x.numel() * 4), dtype=torch.float32)
    return out.copy_(work(x)).view(x.shape)
