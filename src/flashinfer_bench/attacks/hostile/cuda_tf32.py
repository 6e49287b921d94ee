"""The product is computed with ten bits of mantissa instead of twenty-three.

how: TensorFloat-32 is switched on for products of float32
caught by: shown as `precision.ratio`, the error against float64 over the reference's own; a failure only with
    `max_precision_ratio`, since tolerances are the dataset's to choose
expect: visible, failed_audit, INCORRECT_NUMERICAL
family: wrong
on: cuda
plays: matmul
"""

import torch


def run(a, b):
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    out = a @ b
    torch.backends.cuda.matmul.allow_tf32 = before
    return out
