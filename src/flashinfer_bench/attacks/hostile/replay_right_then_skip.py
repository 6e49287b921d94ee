"""Right for as many calls as anyone would look at, then not computed at all.

how: after eight calls the entry point returns uninitialised memory
caught by: a secret share of the timed calls is checked; the last of each trial always
expect: failed_audit, INCORRECT_NUMERICAL
family: replay
plays: long_wave
"""

import torch

calls = 0


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    global calls
    calls += 1
    return work(x) if calls <= 8 else torch.empty_like(x)
