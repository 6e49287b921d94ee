"""The variable that holds when the window began is set later, from inside the call.

how: the frame above the call is found, every integer local that looks like a reading of the clock is changed, and
    `PyFrame_LocalsToFast` writes it back; no function is replaced
caught by: the outside clock
expect: implausible, hidden_work
expect on cuda: prevented
family: clock
plays: long_wave
"""

import ctypes
import sys
import time

import torch


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    out = work(x)
    now = time.perf_counter_ns()
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != "time_ns":
        frame = frame.f_back
    if frame is not None:
        for name, value in list(frame.f_locals.items()):
            if type(value) is int and 0 < now - value < 10**9:
                frame.f_locals[name] = value + (now - value) * 2 // 3
                ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))
    return out
