"""`torch.cuda.Event` tells a third of the time.

how: `elapsed_time` of the class is replaced
caught by: the outside clock disagrees
expect: implausible, tampered_harness
family: clock
on: cuda
plays: long_wave
"""

import torch

genuine = torch.cuda.Event.elapsed_time
torch.cuda.Event.elapsed_time = lambda self, other: genuine(self, other) / 3


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    return work(x)
