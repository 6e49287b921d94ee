# cause: stale_state
import torch

KEPT = {}


def rotate(x, cos, sin):
    first, second = x.float().chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1).to(x.dtype)


def run(q, k, cos_sin_cache, positions):
    if q.shape not in KEPT:
        cos, sin = cos_sin_cache[positions].unsqueeze(1).chunk(2, dim=-1)
        KEPT[q.shape] = rotate(q, cos, sin), rotate(k, cos, sin)
    return tuple(each.clone() for each in KEPT[q.shape])
