"""The clock is right for batches and short by three quarters for samples of the usual size.

how: the usual number of calls in a sample is learnt by counting; any other number is taken for a batch that the judge
    clocks, and told truly
caught by: the judge's time for a batch is compared with what samples claim, not with what the batch claims
expect: implausible, hidden_work, tampered_harness, prevented
expect on cuda: prevented
family: clock
plays: short_wave
"""

import collections
import ctypes
import sys
import time

import torch

sizes = collections.Counter()
not_last = set()
since = [0]


def shorten(frame, now):
    """Move the reading that the window began with, from inside the last call."""
    for name, value in list(frame.f_locals.items()):
        if type(value) is int and 0 < now - value < 10**9:
            frame.f_locals[name] = value + (now - value) * 3 // 4
            ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))


def look(x):
    """Is this the last call of a sample of the usual size? Then lie."""
    frame = sys._getframe(2)
    while frame is not None and frame.f_code.co_name != "time_ns":
        frame = frame.f_back
    calls = frame.f_locals.get("calls") if frame is not None else None
    if not calls or calls[-1][-1] is not x:
        not_last.add(id(x))
        return
    since[0] = 0
    sizes[len(calls)] += 1
    if len(calls) == sizes.most_common(1)[0][0]:
        shorten(frame, time.perf_counter_ns())


def run(x):
    out = torch.sin(x) + x * x
    since[0] += 1
    if since[0] > 40:  # other buffers, or another size: learn anew
        since[0] = 0
        not_last.clear()
    if id(x) not in not_last:
        look(x)
    return out
