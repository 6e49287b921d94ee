# cause: swapped_operands
import torch


def rotate(x, cos, sin):
    first, second = x.float().chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1).to(x.dtype)


def run(q, k, cos_sin_cache, positions):
    sin, cos = cos_sin_cache[positions].unsqueeze(1).chunk(2, dim=-1)
    return rotate(q, cos, sin), rotate(k, cos, sin)
