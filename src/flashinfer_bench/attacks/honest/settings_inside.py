"""Global settings of torch are changed during the call, and put back.

how: default dtype, deterministic algorithms and the random state
plays: long_wave
"""

import torch


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)

def run(x):
    dtype = torch.get_default_dtype()
    is_deterministic = torch.are_deterministic_algorithms_enabled()
    torch.set_default_dtype(torch.float32)
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1)
            return work(x)
    finally:
        torch.use_deterministic_algorithms(is_deterministic)
        torch.set_default_dtype(dtype)
