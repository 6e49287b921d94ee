"""Statistics are printed when the process ends.

how: an `atexit` handler and times of every call in a list
plays: long_wave
"""

import atexit
import time

import torch

spent = []


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)

@atexit.register
def report():
    print(f"{len(spent)} calls")


def run(x):
    started = time.process_time_ns()
    out = work(x)
    spent.append(time.process_time_ns() - started)
    return out
