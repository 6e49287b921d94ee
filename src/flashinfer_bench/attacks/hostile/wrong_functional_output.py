"""The output is wrapped so that pending changes are made when it is read.

how: `torch._to_functional_tensor` gives an object of the plain type that puts off what is done to it
caught by: outputs are dense, strided tensors with memory of their own
expect: RUNTIME_ERROR, tensor_subclass, INCORRECT_NUMERICAL, failed_audit
family: wrong
plays: long_wave
"""

import torch


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    return torch._to_functional_tensor(work(x))
