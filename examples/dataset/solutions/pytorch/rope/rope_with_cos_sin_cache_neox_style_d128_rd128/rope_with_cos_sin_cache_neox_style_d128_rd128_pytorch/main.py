import torch


def rotate_into(x, cos, sin, out):
    first, second = x.float().chunk(2, dim=-1)
    out_first, out_second = out.chunk(2, dim=-1)
    out_first.copy_(torch.mul(first, cos).addcmul_(second, sin, value=-1))
    out_second.copy_(torch.mul(second, cos).addcmul_(first, sin))


def run(q, k, cos_sin_cache, positions, q_out, k_out):
    cos, sin = cos_sin_cache.index_select(0, positions).unsqueeze(1).chunk(2, dim=-1)
    rotate_into(q, cos, sin, q_out)
    rotate_into(k, cos, sin, k_out)
