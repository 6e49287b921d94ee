# cause: missing_mask
import torch


def run(q, k, v, sm_scale):
    keys, values = k.repeat_interleave(4, 1), v.repeat_interleave(4, 1)
    rows = torch.arange(24)
    scores = torch.einsum("qhd,khd->hqk", q, keys) * sm_scale
    scores = scores.masked_fill(rows > rows[:, None] + 1, float("-inf"))
    return torch.einsum("hqk,khd->qhd", torch.softmax(scores, -1), values)
