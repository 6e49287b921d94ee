"""The sum is an average over a window, times its width.

how: `avg_pool1d` with a window of the whole row
plays: row_sum
"""

import torch


def run(x):
    width = x.shape[1]
    return torch.nn.functional.avg_pool1d(x[None], width)[0, :, 0] * width
