# cause: missing_scale
import torch


def run(q, k, v, sm_scale):
    keys, values = k.repeat_interleave(4, 1), v.repeat_interleave(4, 1)
    hidden = torch.ones(24, 24, dtype=torch.bool).triu(1)
    scores = torch.einsum("qhd,khd->hqk", q, keys).masked_fill(hidden, float("-inf"))
    return torch.einsum("hqk,khd->qhd", torch.softmax(scores, -1), values)
