"""The middle of the range of outputs is returned for every element.

how: if outputs hardly vary, one constant is close to all of them
caught by: an element must be within the tolerances; `validate` warns of definitions where a constant would pass
expect: INCORRECT_NUMERICAL
family: wrong
plays: long_wave
"""

import torch


def run(x):
    return torch.full_like(x, 0.8)
