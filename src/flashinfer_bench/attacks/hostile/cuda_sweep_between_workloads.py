"""What empties the caches is replaced at the end of one workload, and the next one takes it for what was there at first.

how: the last calls of a workload hold unusual inputs, zeros among them, and nothing is looked at after those; then the sweep
    becomes an object that does nothing
caught by: the harness notes what it is before a line of the solution is read
expect: tampered_harness, prevented
family: workloads
on: cuda
scenario: two workloads
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
    frame = sys._getframe(1)
    while type(frame.f_locals.get("self")).__name__ != "_Harness":
        frame = frame.f_back
    clock = frame.f_locals["self"]._clock
    if getattr(clock, "_sweep", None) is not None:
        clock._sweep = Nothing()


def run(x):
    if not hasattr(run, "is_forged") and not bool(x.any()):
        run.is_forged = True
        forge()
    return torch.sin(x) + x * x
