"""Two outputs are rows of one allocation.

how: views of the same storage that touch no common byte
plays: row_extremes
"""

import torch


def run(x):
    both = torch.stack((x.amin(dim=1), x.amax(dim=1)))
    return both[0], both[1]
