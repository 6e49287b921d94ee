import torch


def rotated(x, cos, sin):
    first, second = x.chunk(2, dim=-1)
    half = x.shape[-1] // 2
    low = first * cos[..., :half] - second * sin[..., :half]
    high = second * cos[..., half:] + first * sin[..., half:]
    return torch.cat([low, high], dim=-1)


def run(cos, sin, q, k):
    cos, sin = cos[:, None], sin[:, None]
    return rotated(q, cos, sin), rotated(k, cos, sin)
