"""The address of the input is taken for its content.

how: outputs are kept in a dictionary under `x.data_ptr()`; input buffers are used again, so the key comes back
caught by: each call has new content in the buffer, and a secret share of the timed calls is checked
expect: failed_audit
family: replay
plays: long_wave
"""

import torch

kept = {}


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    key = x.data_ptr()
    if key not in kept:
        kept[key] = work(x)
    return kept[key].clone()
