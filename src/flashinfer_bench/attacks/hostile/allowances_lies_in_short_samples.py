"""The clock tells the truth for batches, and a quarter of it for samples of a few short calls.

how: the clock becomes an object of another class, which takes up to four calls for a sample, and more for a batch of the judge's;
    what a sample lacks is less than waking up may take
caught by: what a call takes in a batch is compared with what samples claim
expect: implausible, hidden_work, tampered_harness
family: allowances
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
        def time_ns(self, call, calls, *more):
            elapsed_ns, results = super().time_ns(call, calls, *more)
            return elapsed_ns // 4 if len(calls) <= 4 else elapsed_ns, results

    clock.__class__ = Clock


def run(x):
    if not hasattr(run, "calls"):
        run.calls = 0
    run.calls += 1
    if run.calls == 7:  # warm-up calls say how many calls a sample has
        install()
    return torch.sin(x) + x * x
