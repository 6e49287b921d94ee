# cause: dropped_last_block
import torch


def run(q, k, v, sm_scale):
    out = torch.zeros_like(q)
    keys, values = k.repeat_interleave(4, 1), v.repeat_interleave(4, 1)
    for start in range(0, 24 // 16 * 16, 16):
        rows = torch.arange(start, start + 16)
        scores = torch.einsum("qhd,khd->hqk", q[rows], keys) * sm_scale
        scores = scores.masked_fill(torch.arange(24) > rows[:, None], float("-inf"))
        out[rows] = torch.einsum("hqk,khd->qhd", torch.softmax(scores, -1), values)
    return out
