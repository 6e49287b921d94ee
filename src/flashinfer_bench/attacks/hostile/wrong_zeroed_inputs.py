"""The input is overwritten with zeros, so that both sides agree on an easy answer.

how: if the reference ran on the same memory afterwards, it would see zeros too
caught by: the reference has inputs of its own, and inputs are fingerprinted before and after
expect: changed_inputs, INCORRECT_NUMERICAL
family: wrong
plays: long_wave
"""

import torch


def run(x):
    x.zero_()
    return torch.full_like(x, 2.0)
