"""A timer signal computes between calls.

how: `setitimer` interrupts the process every millisecond, and the handler computes what the buffers hold
caught by: the process must be idle until `go`; its processor time is read from outside
expect: early_compute, hidden_work, implausible, prevented, RUNTIME_ERROR
family: clock
on: cpu
plays: long_wave
"""

import signal

import torch

state = {"buffer": None, "seen": None, "out": None, "busy": False}


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def tick(*_):
    buffer = state["buffer"]
    if buffer is None or state["busy"]:
        return
    mark = (float(buffer[0]), float(buffer[-1]))
    if mark != state["seen"]:
        state["out"], state["seen"] = work(buffer), mark


def run(x):
    if state["buffer"] is None:
        signal.signal(signal.SIGALRM, tick)
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    state["busy"] = True
    mark = (float(x[0]), float(x[-1]))
    try:
        if state["seen"] == mark:
            return state["out"].clone()
        return work(x)
    finally:
        state["buffer"], state["busy"] = x, False
