"""The trace is made to say that another clock was used, on a cold cache.

how: while the solution is built, the clock lies in a variable of the harness; its name, its kind and its coldness are
    attributes, and are believed
caught by: the clock of a trace is the one that was asked for
expect: tampered_harness, COMPILE_ERROR, prevented
family: theft
plays: short_wave
"""

import sys

import torch


def forge():
    frame = sys._getframe()
    while frame is not None and "clock" not in frame.f_locals:
        frame = frame.f_back
    if frame is not None:
        clock = frame.f_locals["clock"]
        clock.name, clock.version = "sundial", "7"
        clock.latency_kind, clock.is_cold = "device", not clock.is_cold


forge()


def run(x):
    return torch.sin(x) + x * x
