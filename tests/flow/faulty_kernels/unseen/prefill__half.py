# cause: narrow_accumulation
import torch


def run(q, k, v, sm_scale):
    keys, values = (each.repeat_interleave(4, 1).bfloat16() for each in (k, v))
    hidden = torch.ones(24, 24, dtype=torch.bool).triu(1)
    scores = torch.einsum("qhd,khd->hqk", q.bfloat16(), keys).float() * sm_scale
    weights = torch.softmax(scores.masked_fill(hidden, float("-inf")), -1)
    return torch.einsum("hqk,khd->qhd", weights.bfloat16(), values).float()
