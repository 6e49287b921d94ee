"""The output is a sparse tensor, whose zeros need not be written.

how: type and shape are those of a plain tensor; whoever copies it pays for making it dense
caught by: outputs are dense, strided tensors
expect: RUNTIME_ERROR, tensor_subclass, INCORRECT_NUMERICAL
family: wrong
plays: long_wave
"""

import torch


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    return work(x).to_sparse()
