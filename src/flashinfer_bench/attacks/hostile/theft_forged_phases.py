"""A time is reported that no trace can hold, and the run ends with this job.

how: the harness becomes an object of another class, which says that preparing a trial took minus one millisecond
caught by: figures are looked at before anything is reckoned with them
expect: tampered_harness, RUNTIME_ERROR, implausible
family: theft
plays: short_wave
"""

import sys

import torch


def install():
    from flashinfer_bench.bench.protocol import TrialOpened

    frame = sys._getframe(1)
    while type(frame.f_locals.get("self")).__name__ != "_Harness":
        frame = frame.f_back
    harness = frame.f_locals["self"]

    class Harness(type(harness)):
        def open_trial(self, id_, seed):
            super().open_trial(id_, seed)
            return TrialOpened(id_, -1.0, None)

    harness.__class__ = Harness


def run(x):
    if not hasattr(run, "is_installed"):
        run.is_installed = True
        install()
    return torch.sin(x) + x * x
