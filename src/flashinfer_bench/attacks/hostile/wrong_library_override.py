"""Operators of torch are overridden for the whole process, so that inputs are easy.

how: `torch.library` puts a function that fills zeros in the place of `aten::mul.out`, which writes the inputs
caught by: the judge makes its own inputs, and compares fingerprints and outputs
expect: changed_inputs, INCORRECT_NUMERICAL, RUNTIME_ERROR
family: wrong
on: cpu
plays: long_wave
"""

import torch

library = torch.library.Library("aten", "IMPL")


def multiply(self, other, *, out):
    return out.zero_()


library.impl("mul.out", multiply, "CPU")


def run(x):
    return torch.full_like(x, 2.0)
