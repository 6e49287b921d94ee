"""Every sixteenth call tidies up.

how: amortised work: a table is rebuilt now and then
expect: PASSED
family: honest
on: cpu
plays: long_wave
"""

import torch

calls = [0]
scratch = torch.zeros(1 << 16)

def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    calls[0] += 1
    if calls[0] % 16 == 0:
        scratch.normal_()
    return work(x)
