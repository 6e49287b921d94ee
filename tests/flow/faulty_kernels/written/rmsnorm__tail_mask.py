# cause: missing_tail_mask
import torch


def run(x, weight):
    wide = x.float()
    scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-5)
    columns = torch.arange(300)
    lane = torch.where(columns < 256, columns, columns - 44)
    return (wide * scale * weight.float()[lane]).to(x.dtype)
