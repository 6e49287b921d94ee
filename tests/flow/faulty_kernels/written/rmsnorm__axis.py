# cause: wrong_axis
import torch


def run(x, weight):
    wide = x.float()
    scale = torch.rsqrt(wide.square().mean(0, keepdim=True) + 1e-5)
    return (wide * scale * weight.float()).to(x.dtype)
