"""The version counter of the input is believed to tell that nothing was written to it.

how: outputs are kept under the address and `x._version`, with the counter masked as caches for weights do
caught by: the inputs are written anew for every call; a masked or frozen counter replays a stale output
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
    key = (x.data_ptr(), x._version & ~0xFFFF)
    if key not in kept:
        kept[key] = work(x)
    return kept[key].clone()
