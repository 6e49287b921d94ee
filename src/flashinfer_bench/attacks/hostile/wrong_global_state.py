"""The process is left in a state that makes harness code compute something else.

how: default dtype, default device, gradient mode and the global generator are changed
caught by: what the harness makes here is compared with what another process makes
expect: prevented, INCORRECT_NUMERICAL, RUNTIME_ERROR
family: wrong
plays: long_wave
"""

import torch


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    out = work(x)
    torch.set_default_dtype(torch.float16)
    torch.set_grad_enabled(False)
    torch.manual_seed(0)
    return out
