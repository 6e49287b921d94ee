"""The time for which calls keep the host is said to be less than nothing, and the run ends with this job.

how: the clock becomes an object of another class, which says that calls kept the host for minus one second
caught by: figures are looked at before anything is reckoned with them
expect: tampered_harness, RUNTIME_ERROR, implausible
family: theft
on: cpu
plays: short_wave
"""

import sys

import torch


def install():
    frame = sys._getframe(1)
    while type(frame.f_locals.get("self")).__name__ != "_Harness":
        frame = frame.f_back
    clock = frame.f_locals["self"]._clock

    class Clock(type(clock)):
        @property
        def host_ns(self):
            return -(10**9)

    clock.__class__ = Clock


def run(x):
    if not hasattr(run, "is_installed"):
        run.is_installed = True
        install()
    return torch.sin(x) + x * x
