import math

import torch


def run(query, key, value):
    groups = query.shape[1] // key.shape[1]
    key = key.repeat_interleave(groups, dim=1)
    value = value.repeat_interleave(groups, dim=1)
    scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
    length = query.shape[-2]
    later = torch.ones(length, length, dtype=torch.bool, device=query.device).triu(1)
    weights = scores.masked_fill(later, float("-inf")).softmax(-1)
    return weights @ value
