"""Weights are packed once and found again by their address, without `prepare`.

how: a contiguous transpose of `weight` is kept under `weight.data_ptr()`
caught by: static inputs are redrawn in every trial, in the same memory
expect: INCORRECT_NUMERICAL
family: replay
plays: linear
"""

packed = {}


def run(x, weight):
    key = weight.data_ptr()
    if key not in packed:
        packed[key] = weight.T.contiguous()
    return x @ packed[key]
