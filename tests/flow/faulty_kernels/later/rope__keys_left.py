# cause: missing_operation
import torch


def run(q, k, cos_sin_cache, positions):
    cos, sin = cos_sin_cache[positions][:, None].chunk(2, dim=-1)
    a, b = q.float().chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1).to(q.dtype), k.clone()
