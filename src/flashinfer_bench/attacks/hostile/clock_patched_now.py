"""The function the clock reads is replaced by one that runs slow.

how: the module of the wall clock binds `_now_ns`; a slower one takes its place
caught by: the outside clock disagrees
expect: implausible, tampered_harness
expect on cuda: prevented, tampered_harness
family: clock
plays: long_wave
"""

import time

import torch

genuine = time.perf_counter_ns


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    if not hasattr(run, "patched"):
        run.patched = True
        from flashinfer_bench.bench.timing import wall

        began = genuine()
        wall._now_ns = lambda: began + (genuine() - began) // 3
    return work(x)
