"""An object with `__call__` holds the first output.

how: the entry point is an instance, and `self` survives
caught by: a secret share of the timed calls is checked, wherever state is kept
expect: failed_audit
family: replay
plays: long_wave
"""

import torch


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


class Run:
    def __init__(self):
        self.kept = None

    def __call__(self, x):
        if self.kept is None:
            self.kept = work(x)
        return self.kept.clone()


run = Run()
