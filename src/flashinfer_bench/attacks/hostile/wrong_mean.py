"""The mean of the right output is returned for every element.

how: sampled elements are computed and averaged
caught by: an element must be within the tolerances
expect: INCORRECT_NUMERICAL
family: wrong
plays: long_wave
"""

import torch


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    return work(x[:256]).mean().expand(x.shape).contiguous()
