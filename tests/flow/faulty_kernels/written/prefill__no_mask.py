# cause: missing_mask
import torch


def run(q, k, v, sm_scale):
    keys, values = k.repeat_interleave(4, 1), v.repeat_interleave(4, 1)
    scores = torch.einsum("qhd,khd->hqk", q, keys) * sm_scale
    return torch.einsum("hqk,khd->qhd", torch.softmax(scores, -1), values)
