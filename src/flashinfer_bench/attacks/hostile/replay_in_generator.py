"""A suspended generator holds the first output.

how: the entry point sends its input to a generator that computed once
caught by: a secret share of the timed calls is checked, wherever state is kept
expect: failed_audit
family: replay
plays: long_wave
"""

import torch


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def answers():
    x = yield None
    kept = work(x)
    while True:
        yield kept.clone()


generator = answers()
next(generator)


def run(x):
    return generator.send(x)
