"""Outputs are computed while caches are emptied, which takes a hundred times as long as a call.

how: a thread looks every four milliseconds whether the last buffer holds new content, and computes on it
caught by: caches are emptied in another process, and what this one computes meanwhile counts
expect: hidden_work, background_compute, early_compute, implausible, prevented
family: clock
on: cpu
plays: long_wave
scenario: cold caches
slow: yes
"""

import threading
import time

import torch

state = {"buffer": None, "seen": None, "out": None}


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def watch():
    while True:
        time.sleep(4e-3)
        buffer = state["buffer"]
        if buffer is None:
            continue
        mark = (float(buffer[0]), float(buffer[-1]))
        if mark != state["seen"]:
            out = work(buffer)
            if mark == (float(buffer[0]), float(buffer[-1])):
                state["out"], state["seen"] = out, mark


threading.Thread(target=watch, daemon=True).start()


def run(x):
    if state["buffer"] is not None and state["buffer"].data_ptr() == x.data_ptr():
        if state["seen"] == (float(x[0]), float(x[-1])):
            return state["out"].clone()
    state["buffer"] = x
    return work(x)
