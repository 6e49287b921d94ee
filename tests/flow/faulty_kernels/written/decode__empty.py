# cause: nan_in_masked_rows
import torch


def run(q, k, v, lengths, sm_scale):
    keys, values = k.repeat_interleave(2, 2), v.repeat_interleave(2, 2)
    scores = torch.einsum("bhd,bthd->bht", q, keys) * sm_scale
    beyond = torch.arange(8) >= lengths[:, None]
    scores = scores.masked_fill(beyond[:, None], float("-inf"))
    return torch.einsum("bht,bthd->bhd", torch.softmax(scores, -1), values)
