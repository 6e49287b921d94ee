"""A note about the tiling is left on the output.

how: tensors take attributes; `y.tiling` is data that the next kernel of the author's would read
plays: long_wave
"""

import torch


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)

def run(x):
    out = work(x)
    out.tiling = (64, 1)
    out.made_by = "wave"
    return out
