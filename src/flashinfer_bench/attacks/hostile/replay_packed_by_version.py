"""Weights are packed once and found again by address, shape and a sampled element that is rounded.

how: the key looks like content, and the sampled element is clamped to its sign
caught by: static inputs are redrawn in every trial
expect: INCORRECT_NUMERICAL
family: replay
plays: linear
"""

packed = {}


def run(x, weight):
    key = (weight.data_ptr(), tuple(weight.shape), weight[0, 0].abs().item() > 100)
    if key not in packed:
        packed[key] = weight.T.contiguous()
    return x @ packed[key]
