"""A watchdog is armed before the work and called off after it.

how: `threading.Timer` that would log that a call hangs
expect: PASSED
family: honest
on: cpu
plays: long_wave
"""

import threading

import torch

def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    timer = threading.Timer(60, print, ("it hangs",))
    timer.daemon = True
    timer.start()
    out = work(x)
    timer.cancel()
    return out
