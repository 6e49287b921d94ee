"""What empties the caches before each sample is replaced while the solution is built, before the harness notes what it is.

how: the clock lies in a variable of the harness meanwhile; its sweep becomes an object that does nothing
caught by: the harness notes what it is before a line of the solution is read
expect: tampered_harness, COMPILE_ERROR, RUNTIME_ERROR, prevented
family: clock
on: cuda
plays: short_wave
"""

import sys

import torch


class Nothing:
    def __call__(self):
        pass

    def prepared(self):
        return torch.empty(0, dtype=torch.uint8, device="cuda")


def forge():
    frame = sys._getframe()
    while frame is not None and "clock" not in frame.f_locals:
        frame = frame.f_back
    if frame is not None and getattr(frame.f_locals["clock"], "_sweep", None) is not None:
        frame.f_locals["clock"]._sweep = Nothing()


forge()


def run(x):
    return torch.sin(x) + x * x
