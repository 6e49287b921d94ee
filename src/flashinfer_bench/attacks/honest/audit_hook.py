"""An audit hook counts what the interpreter does.

how: `sys.addaudithook` with a function that only counts
expect: PASSED
family: honest
on: cpu
plays: long_wave
"""

import collections
import sys

import torch

events = collections.Counter()
sys.addaudithook(lambda event, arguments: events.update((event,)))

def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    return work(x)
