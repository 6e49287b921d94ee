"""A closure holds the first output.

how: the entry point is made by a factory whose local variable survives
caught by: a secret share of the timed calls is checked, wherever state is kept
expect: failed_audit
family: replay
plays: long_wave
"""

import torch


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def make():
    kept = None

    def run(x):
        nonlocal kept
        if kept is None:
            kept = work(x)
        return kept.clone()

    return run


run = make()
