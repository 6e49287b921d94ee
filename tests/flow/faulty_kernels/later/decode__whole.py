# cause: missing_mask
import torch


def run(q, k, v, lengths, sm_scale):
    k, v = (each.repeat_interleave(2, dim=2) for each in (k, v))
    weights = torch.softmax(torch.einsum("bhd,bthd->bht", q, k) * sm_scale, dim=-1)
    return torch.einsum("bht,bthd->bhd", weights, v) * (lengths > 0).float()[:, None, None]
