# cause: missing_scale
import torch


def run(q, k, v, sm_scale):
    keys, values = k.repeat_interleave(4, 1), v.repeat_interleave(4, 1)
    hidden = torch.ones(24, 24, dtype=torch.bool).triu(1)
    scores = (torch.einsum("qhd,khd->hqk", q, keys) * sm_scale).masked_fill(hidden, float("-inf"))
    weights = torch.exp2(scores - scores.amax(-1, keepdim=True))
    return torch.einsum("hqk,khd->qhd", weights / weights.sum(-1, keepdim=True), values)
