"""Every other call leaves the output buffer as it was.

how: buffers are used again, so the last right answer might still be in them
caught by: output buffers hold NaN before every call
expect: failed_audit, INCORRECT_NUMERICAL
family: wrong
style: into
plays: long_wave
"""

import torch

calls = 0


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x, y):
    global calls
    calls += 1
    if calls % 2:
        y.copy_(work(x))
