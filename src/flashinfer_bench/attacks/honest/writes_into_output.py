"""The output that was passed in is written with `out=`.

how: destination-passing style with a scratch tensor of its own
style: into
plays: long_wave
"""

import torch


def run(x, y):
    torch.tanh(x, out=y)
    y.add_(torch.sin(x))
    y.square_().neg_().exp_()
    y.add_(torch.cos(3 * x))
