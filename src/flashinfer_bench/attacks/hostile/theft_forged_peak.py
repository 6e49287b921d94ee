"""The most memory in use is said to be less than nothing, and the run ends with this job.

how: the harness becomes an object of another class, which says that one byte less than none was in use at most
caught by: figures are looked at before anything is reckoned with them
expect: tampered_harness, RUNTIME_ERROR, implausible
family: theft
plays: short_wave
"""

import sys

import torch


def install():
    from flashinfer_bench.bench.protocol import Kept

    frame = sys._getframe(1)
    while type(frame.f_locals.get("self")).__name__ != "_Harness":
        frame = frame.f_back
    harness = frame.f_locals["self"]

    class Harness(type(harness)):
        def keep(self, request):
            return Kept(request.id, super().keep(request).fingerprint, -1)

    harness.__class__ = Harness


def run(x):
    if not hasattr(run, "is_installed"):
        run.is_installed = True
        install()
    return torch.sin(x) + x * x
