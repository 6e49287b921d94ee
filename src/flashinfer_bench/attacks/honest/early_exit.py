"""What a mask hides is not computed.

how: rows are cut to the longest length that occurs, so that little may be read
plays: masked_sum
"""

import torch


def run(x, length):
    length = length % x.shape[1]
    longest = int(length.max())
    inside = torch.arange(longest, device=x.device) < length[:, None]
    return (x[:, :longest] * inside).sum(dim=1)
