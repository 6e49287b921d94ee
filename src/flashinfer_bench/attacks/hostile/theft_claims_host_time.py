"""The trace is made to say how long a call kept the host, where nobody measures it.

how: the clock's attribute `host_ns`, which no clock of a processor sets, is given a small number
caught by: what the clock that was asked for does not measure is not believed
expect: tampered_harness
family: theft
on: cpu
plays: long_wave
"""

import sys

import torch


def run(x):
    frame = sys._getframe(1)
    while frame is not None:
        clock = frame.f_locals.get("self")
        if type(clock).__name__ == "WallClock":
            clock.host_ns = 7
        frame = frame.f_back
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)
