"""The clock is patched while calls run, and put right whenever somebody looks.

how: a profiling hook puts the genuine function back when the harness starts to look at itself, and the slow one in its
    place when it has finished
caught by: the outside clock, which never looks away
expect: implausible, hidden_work, tampered_harness
expect on cuda: prevented, implausible, hidden_work, tampered_harness
family: clock
plays: long_wave
"""

import sys
import time

import torch

genuine = time.perf_counter_ns


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def slow():
    return slow.began + (genuine() - slow.began) // 3


def hook(frame, event, _):
    name = frame.f_code.co_name
    if name in ("damage", "keep", "_inspected") and event in ("call", "return"):
        from flashinfer_bench.bench.timing import wall

        wall._now_ns = genuine if event == "call" else slow


def run(x):
    if not hasattr(run, "hooked"):
        run.hooked = True
        slow.began = genuine()
        sys.setprofile(hook)
    return work(x)
