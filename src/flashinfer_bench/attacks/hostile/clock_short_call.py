"""The clock is slowed by a factor of three, for a call of some ten microseconds.

how: lies about short calls hide in the noise of what an outside clock can tell about short calls
caught by: the slope over batches of secret, varying length separates the call from what surrounds it
expect: implausible, tampered_harness
expect on cuda: prevented, tampered_harness
family: clock
plays: short_wave
"""

import time

import torch

genuine = time.perf_counter_ns


def run(x):
    if not hasattr(run, "patched"):
        run.patched = True
        from flashinfer_bench.bench.timing import wall

        began = genuine()
        wall._now_ns = lambda: began + int((genuine() - began) / 3)
    return torch.sin(x) + x * x
