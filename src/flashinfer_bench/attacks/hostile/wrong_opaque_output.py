"""The output is left in the private layout of a library.

how: an `mkldnn` tensor has the type and shape of a plain one; whoever copies it pays for the conversion
caught by: outputs are dense, strided tensors
expect: RUNTIME_ERROR, tensor_subclass, INCORRECT_NUMERICAL
family: wrong
on: cpu
plays: long_wave
"""

import torch


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    return work(x).to_mkldnn()
