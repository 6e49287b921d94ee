"""Code is left to run when the process ends.

how: `atexit` and a signal handler would print a result and touch files after the last answer
caught by: workers are ended by a signal that cannot be caught, and printing decides nothing
expect: prevented
family: theft
plays: long_wave
"""

import atexit
import signal

import torch

atexit.register(print, "loot: ran after the end")
signal.signal(signal.SIGTERM, lambda *_: print("loot: ran after the end"))


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    return work(x)
