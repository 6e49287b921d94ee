# cause: off_by_one
import torch


def run(q, k, v, lengths, sm_scale):
    k, v = (each.repeat_interleave(2, dim=2) for each in (k, v))
    scores = torch.einsum("bhd,bthd->bht", q, k) * sm_scale
    place = torch.arange(k.shape[1], device=q.device)
    scores = scores.masked_fill(place[None, None] >= (lengths - 1)[:, None, None], float("-inf"))
    return torch.einsum("bht,bthd->bhd", torch.softmax(scores, dim=-1).nan_to_num(), v)
