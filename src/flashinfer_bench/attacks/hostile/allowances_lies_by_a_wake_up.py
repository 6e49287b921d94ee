"""The start of the window is moved, by less than waking up may vary by.

how: one output buffer for all calls has samples of one call of some microseconds, of which the clock is made to tell a
    twentieth; batches are told truly
caught by: what a sample may be short by is compared with what it takes
expect: implausible, hidden_work, early_compute, tampered_harness, prevented, told
family: allowances
on: cpu
plays: short_wave
"""

import ctypes
import sys
import time

import torch

state = {"out": None}


def run(x):
    if state["out"] is None or state["out"].shape != x.shape:
        state["out"] = torch.empty_like(x)
    out = torch.add(torch.sin(x), x * x, out=state["out"])
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != "time_ns":
        frame = frame.f_back
    if frame is not None and len(frame.f_locals["calls"]) == 1:
        now = time.perf_counter_ns()
        frame.f_locals["started_ns"] = now - (now - frame.f_locals["started_ns"]) // 20
        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))
    return out
