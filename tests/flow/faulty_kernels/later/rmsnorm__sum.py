# cause: missing_scale
import torch


def run(x, weight):
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().sum(-1, keepdim=True) + 1e-5) * weight.float()).to(x.dtype)
