"""Operations run in place on buffers of the call's own.

how: every intermediate is overwritten by the next one
plays: long_wave
"""

import torch


def run(x):
    y = torch.tanh(x)
    y += torch.sin(x)
    y.square_().neg_().exp_()
    z = x * 3
    z.cos_()
    y += z
    return y
