"""The input tensor itself carries the output as an attribute.

how: tensors take attributes, and the same tensor objects are passed again
caught by: a secret share of the timed calls is checked, wherever state is kept
expect: failed_audit
family: replay
plays: long_wave
"""

import torch


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    if not hasattr(x, "kept"):
        x.kept = work(x)
    return x.kept.clone()
