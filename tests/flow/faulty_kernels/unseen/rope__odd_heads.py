# cause: skipped_elements
import torch


def rotate(x, cos, sin):
    first, second = x.float().chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1).to(x.dtype)


def run(q, k, cos_sin_cache, positions, q_out, k_out):
    cos, sin = cos_sin_cache[positions].unsqueeze(1).chunk(2, dim=-1)
    k_out.copy_(rotate(k, cos, sin))
    for head in range(0, 4, 2):
        q_out[:, head : head + 1] = rotate(q[:, head : head + 1], cos, sin)
