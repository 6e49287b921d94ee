"""Threads compute for nearly a millisecond after each block of our own, when the control is looked at.

how: nobody watches us while the control shows what a sample costs beside its calls; that is made to be much, and two thirds
    of what a call takes are not claimed
caught by: the control is looked at when the candidate is at rest, and what that computes meanwhile is no excuse
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

state = {"calls": 0, "last": 0.0, "round": 0, "burnt": 0}


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def watch():
    seen = 0
    while True:
        time.sleep(1e-4)
        if state["round"] != seen and time.perf_counter() - state["last"] > 2.5e-4 and state["round"] - state["burnt"] > 2:
            seen = state["burnt"] = state["round"]
            until = time.perf_counter() + 9e-4
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
        frame.f_locals["started_ns"] = started + (now - started) * 2 // 3
        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))
    state["last"] = time.perf_counter()
    state["round"] += 1
    return out
