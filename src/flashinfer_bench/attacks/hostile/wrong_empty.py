"""Fresh memory is returned in the hope that it holds a freed expected output.

how: `torch.empty` of the right size; allocators like to give back what was freed last
caught by: expected outputs are computed in another process
expect: INCORRECT_NUMERICAL
family: wrong
plays: long_wave
"""

import torch


def run(x):
    return torch.empty_like(x)
