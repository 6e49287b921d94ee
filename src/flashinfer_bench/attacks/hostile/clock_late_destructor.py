"""A destructor computes what has been put off.

how: an object that the entry point leaves in the frame dies when the window closes; its `__del__` does the work
caught by: the outside clock, and outputs committed at once
expect: implausible, hidden_work, INCORRECT_NUMERICAL, tampered_harness
family: clock
plays: long_wave
"""

import sys

import torch


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


class Later:
    def __init__(self, x, out):
        self.x, self.out = x, out

    def __del__(self):
        self.out.copy_(work(self.x))


def run(x):
    out = torch.empty_like(x)
    frame = sys._getframe(1)
    frame.f_globals["_kept_alive"] = Later(x, out)
    frame.f_trace_opcodes = False
    return out
