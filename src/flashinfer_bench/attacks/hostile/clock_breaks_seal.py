"""What would notice a changed harness is changed first, then the clock is made to lie.

how: `IntegrityCheck.damage` is replaced by a function that finds nothing; then the wall clock reports a third
caught by: the outside clock, which is in another process
expect: implausible, hidden_work, tampered_harness
expect on cuda: implausible, hidden_work, tampered_harness, prevented
family: clock
plays: long_wave
"""

import time

import torch

genuine = time.perf_counter_ns


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def patch():
    from flashinfer_bench.bench.timing import wall
    from flashinfer_bench.bench.candidate import integrity

    integrity.IntegrityCheck.damage = lambda self, **_: None
    began = genuine()
    wall._now_ns = lambda: began + (genuine() - began) // 3


def run(x):
    if not hasattr(run, "patched"):
        run.patched = True
        patch()
    return work(x)
