"""The first calls are computed, later ones get their outputs in turn.

how: a counter picks one of the outputs of the first six calls
caught by: a secret share of the timed calls is checked
expect: failed_audit
family: replay
plays: long_wave
"""

import torch

kept = []
calls = 0


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    global calls
    calls += 1
    if len(kept) < 6:
        kept.append(work(x))
        return kept[-1].clone()
    return kept[calls % 6].clone()
