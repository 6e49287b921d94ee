"""A thread watches the input buffers and computes as soon as new content shows up.

how: the buffer of the last call is polled; between `prepared` and `go` the work is done, unseen by the clock
caught by: the process must be idle until `go`; its processor time is read from outside
expect: early_compute, hidden_work, implausible, prevented, background_compute
family: clock
on: cpu
plays: long_wave
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
        buffer = state["buffer"]
        if buffer is not None:
            mark = (float(buffer[0]), float(buffer[-1]))
            if mark != state["seen"]:
                out = work(buffer)
                if mark == (float(buffer[0]), float(buffer[-1])):
                    state["out"], state["seen"] = out, mark
        time.sleep(2e-5)


threading.Thread(target=watch, daemon=True).start()


def run(x):
    mark = (float(x[0]), float(x[-1]))
    if state["buffer"] is not None and state["buffer"].data_ptr() == x.data_ptr() and state["seen"] == mark:
        return state["out"].clone()
    state["buffer"] = x
    return work(x)
