# cause: nan_in_masked_rows
import torch


def run(q, k, v, lengths, sm_scale):
    out = torch.empty_like(q)
    for row, length in enumerate(lengths.tolist()):
        keys = k[row, :length].repeat_interleave(2, 1)
        values = v[row, :length].repeat_interleave(2, 1)
        weights = torch.exp(torch.einsum("hd,thd->ht", q[row], keys) * sm_scale)
        out[row] = torch.einsum("ht,thd->hd", weights, values) / weights.sum(-1, keepdim=True)
    return out
