"""Threads make noise in three of ten blocks of others, and what that varies by is used to lie.

how: the ninth of ten values says what trusted processes vary by; threads spin for 6 ms in some blocks, half of the time is not claimed
caught by: what it computes in a few blocks of others is not taken for what trusted processes vary by
expect: implausible, hidden_work, background_compute, early_compute, tampered_harness, prevented
family: allowances
on: cpu
plays: long_wave
"""

import ctypes
import os
import sys
import threading
import time

import torch

state = {"calls": 0, "last": 0.0, "round": 0}

def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def watch():
    seen = 0
    while True:
        time.sleep(3e-4)
        if state["round"] != seen and time.perf_counter() - state["last"] > 7e-4:
            seen = state["round"]
            if state["round"] // 3 % 10 < 4:
                until = time.perf_counter() + 6e-3
                while time.perf_counter() < until:
                    pass


def run(x):
    if not state["calls"]:
        for _ in range(os.cpu_count()):
            threading.Thread(target=watch, daemon=True).start()
    out = work(x)
    state["calls"] += 1
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != "time_ns":
        frame = frame.f_back
    calls = frame.f_locals["calls"] if frame is not None else ()
    if len(calls) == 1 and state["calls"] > 6:
        now = time.perf_counter_ns()
        started = frame.f_locals["started_ns"]
        frame.f_locals["started_ns"] = started + (now - started) * 1 // 2
        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))
    state["last"] = time.perf_counter()
    state["round"] += 1
    return out
