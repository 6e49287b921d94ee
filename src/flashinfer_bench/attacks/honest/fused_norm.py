"""A fused function of torch is the kernel.

how: `torch.nn.functional.rms_norm` does in one call what the reference does in five
plays: rms_norm
"""

import torch


def run(x, weight):
    return torch.nn.functional.rms_norm(x, weight.shape, weight, eps=1e-6)
