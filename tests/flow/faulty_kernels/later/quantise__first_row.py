# cause: wrong_broadcast
import torch


def run(x):
    scales = x.abs().amax(dim=-1) / 127.0
    return torch.round(x / scales[0]).clamp(-127, 127).to(torch.int8), scales
