"""What is returned is a list whose elements are computed when somebody looks.

how: a subclass of `list` with a lazy `__iter__` passes for a list; the harness iterates after the clock stopped
caught by: what is really in the list is taken, not what its methods say
expect: INCORRECT_NUMERICAL, RUNTIME_ERROR
family: clock
plays: long_wave
"""

import torch


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


class Later(list):
    def __init__(self, x):
        super().__init__([torch.empty_like(x)])
        self.x = x

    def __iter__(self):
        yield work(self.x)


def run(x):
    return Later(x)
