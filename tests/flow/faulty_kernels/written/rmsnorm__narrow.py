# cause: narrow_accumulation
import torch


def run(x, weight):
    total = torch.zeros(len(x), 1, dtype=x.dtype)
    for column in range(300):
        total += x[:, column : column + 1].square()
    return x * torch.rsqrt(total / 300 + 1e-5) * weight
