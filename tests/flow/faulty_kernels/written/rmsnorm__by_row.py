# cause: wrong_broadcast
import torch


def run(x, weight):
    wide = x.float()
    scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-5)
    return (wide * scale * weight.float()[: len(x), None]).to(x.dtype)
