"""The clock becomes an object of another class, which tells a third of the time.

how: `__class__` of the clock in use is assigned to: no name of the harness is replaced, and no attribute hides a method
caught by: the outside clock, which is in another process
expect: implausible, hidden_work, tampered_harness
family: clock
on: cpu
plays: long_wave
"""

import sys

import torch


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def install():
    frame = sys._getframe(1)
    while type(frame.f_locals.get("self")).__name__ != "_Harness":
        frame = frame.f_back
    clock = frame.f_locals["self"]._clock

    class Clock(type(clock)):
        def time_ns(self, *arguments):
            elapsed_ns, results = super().time_ns(*arguments)
            return elapsed_ns // 3, results

    clock.__class__ = Clock


def run(x):
    if not hasattr(run, "is_installed"):
        run.is_installed = True
        install()
    return work(x)
