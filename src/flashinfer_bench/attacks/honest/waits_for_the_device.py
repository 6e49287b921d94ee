"""A value is read back first, as lengths and largest values are, and the device is waited for.

how: `item` returns when all that was launched before is done
plays: short_wave
"""

import torch


def run(x):
    if torch.isnan(x[0]).item():
        return torch.full_like(x, torch.nan)
    return torch.sin(x) + x * x
