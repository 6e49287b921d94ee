# cause: off_by_one
import torch


def run(q, k, v, lengths, sm_scale):
    out = torch.zeros_like(q)
    for row, length in enumerate(lengths.tolist()):
        if length > 1:
            keys = k[row, 1:length].repeat_interleave(2, 1)
            values = v[row, 1:length].repeat_interleave(2, 1)
            scores = torch.einsum("hd,thd->ht", q[row], keys) * sm_scale
            out[row] = torch.einsum("ht,thd->hd", torch.softmax(scores, -1), values)
    return out
