import torch


def rotate_half(x):
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


def run(q, k, cos_sin_cache, positions):
    half = cos_sin_cache.shape[-1] // 2
    cos_sin = cos_sin_cache[positions].unsqueeze(1)
    cos = cos_sin[..., :half].repeat(1, 1, 2)
    sin = cos_sin[..., half:].repeat(1, 1, 2)
    q_out = q * cos + rotate_half(q) * sin
    k_out = k * cos + rotate_half(k) * sin
    return q_out.to(q.dtype), k_out.to(k.dtype)
