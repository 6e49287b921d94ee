"""The code object of the clock's method is replaced, the function object stays.

how: `WallClock.time_ns.__code__` is swapped for code that reports a third
caught by: the outside clock disagrees
expect: implausible, tampered_harness
expect on cuda: prevented, tampered_harness
family: clock
plays: long_wave
"""

import torch


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def time_ns(self, call, calls, done=None):
    started_ns = _now_ns()  # noqa: F821
    results = [call(*arguments) for arguments in calls]
    return (_now_ns() - started_ns) // 3, results  # noqa: F821


def run(x):
    if not hasattr(run, "patched"):
        run.patched = True
        from flashinfer_bench.bench.timing import wall

        wall.WallClock.time_ns.__code__ = time_ns.__code__
    return work(x)
