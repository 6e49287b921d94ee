# cause: swapped_operands
import torch


def turned(x, cos, sin):
    a, b = x.float().chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1).to(x.dtype)


def run(q, k, cos_sin_cache, positions):
    sin, cos = cos_sin_cache[positions][:, None].chunk(2, dim=-1)
    return turned(q, cos, sin), turned(k, cos, sin)
