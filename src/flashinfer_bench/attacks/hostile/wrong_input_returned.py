"""The input's own memory is returned as the output.

how: the input is overwritten in place and handed back
caught by: an output may share no byte with an input
expect: overlapping_output, changed_inputs
family: wrong
plays: long_wave
"""

import torch


def run(x):
    y = torch.tanh(x) + torch.sin(x)
    return x.mul_(3).cos_().add_(torch.exp(-y * y))
