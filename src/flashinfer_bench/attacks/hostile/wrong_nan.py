"""NaN is returned everywhere, in case it compares as a match.

how: comparisons with NaN are false, also "is it off by more than"
caught by: NaN must be where the reference has NaN, and nowhere else
expect: INCORRECT_NUMERICAL
family: wrong
plays: long_wave
"""

import torch


def run(x):
    return torch.full_like(x, float("nan"))
