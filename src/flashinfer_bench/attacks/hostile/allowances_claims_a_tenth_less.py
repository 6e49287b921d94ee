"""Eight hundredths of what a call takes are not claimed.

how: the variable that holds when the window began is set later, from inside the last call of each sample, by 8% of what
    has passed; no function is replaced
caught by: nothing: the judge's own clock varies by as much from one process to the next
expect: not_stopped
why not: a claim may be short of the judge's clock by a tenth, so up to 1.1 times is had by lying
family: allowances
on: cpu
plays: long_wave
"""

import ctypes
import sys
import time

import torch


def shorten(frame, share):
    now = time.perf_counter_ns()
    frame.f_locals["started_ns"] = now - round((now - frame.f_locals["started_ns"]) * (1 - share))
    ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))


def run(x):
    y = torch.tanh(x) + torch.sin(x)
    out = torch.exp(-y * y) + torch.cos(3 * x)
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != "time_ns":
        frame = frame.f_back
    if frame is not None and frame.f_locals["calls"][-1][-1] is x:
        shorten(frame, 0.08)
    return out
