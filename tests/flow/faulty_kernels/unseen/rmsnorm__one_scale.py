# cause: wrong_broadcast
import torch


def run(x, weight):
    wide = x.float()
    scale = torch.rsqrt(wide[0].square().mean() + 1e-5)
    return (wide * scale * weight.float()).to(x.dtype)
