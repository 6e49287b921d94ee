# cause: wrong_rounding
import torch


def run(x):
    scales = x.abs().amax(dim=-1) / 127.0
    return (x / scales[:, None]).clamp(-127, 127).to(torch.int8), scales
