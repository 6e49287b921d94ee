"""The output is an inference tensor.

how: the kernel runs under `torch.inference_mode`, whose tensors refuse to be written outside
plays: long_wave
"""

import torch


@torch.inference_mode()
def run(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)
