"""In-place operations run on a clone of the input.

how: the input itself stays as it was
plays: long_wave
"""

import torch


def run(x):
    y = x.clone()
    y.tanh_().add_(torch.sin(x)).square_().neg_().exp_()
    return y.add_(x.clone().mul_(3).cos_())
