# cause: wrong_stride
import torch


def rotate(x, cos, sin):
    first, second = x.float()[..., ::2], x.float()[..., 1::2]
    pairs = first * cos - second * sin, second * cos + first * sin
    return torch.stack(pairs, -1).flatten(-2).to(x.dtype)


def run(q, k, cos_sin_cache, positions):
    cos, sin = cos_sin_cache[positions].unsqueeze(1).chunk(2, dim=-1)
    return rotate(q, cos, sin), rotate(k, cos, sin)
