"""Noise is made so that a lie hides in it.

how: orphans burn processor time in bursts, which unsettles every figure the judge compares with, while the start of
    the window is moved to quarter what is claimed
caught by: a claim far from the judge's clock is no matter of noise; what runs beside a job is watched
expect: implausible, hidden_work, background_compute, early_compute, tampered_harness
family: clock
on: cpu
plays: long_wave
"""

import ctypes
import os
import random
import sys
import time

import torch

started = []


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def burn():
    os.setsid()
    os.sched_setaffinity(0, range(os.cpu_count()))
    deadline = time.monotonic() + 15
    while time.monotonic() < deadline:
        until = time.monotonic() + random.random() * 0.02
        while time.monotonic() < until:
            pass
        time.sleep(random.random() * 0.02)
    os._exit(0)


def run(x):
    if not started:
        started.append(True)
        for _ in range(2 * os.cpu_count()):
            child = os.fork()
            if child == 0:
                if os.fork() == 0:
                    burn()
                os._exit(0)
            os.waitpid(child, 0)
    out = work(x)
    now = time.perf_counter_ns()
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != "time_ns":
        frame = frame.f_back
    if frame is not None:
        for name, value in list(frame.f_locals.items()):
            if type(value) is int and 0 < now - value < 10**9:
                frame.f_locals[name] = value + (now - value) * 3 // 4
                ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))
    return out
