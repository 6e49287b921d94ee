"""A call of some microseconds is computed between the order to go and the start of the window.

how: one output buffer for all calls has samples of one call; `gc.disable` is replaced by a function that computes that call,
    within the 15 µs that waking up may take longer; batches are honest
caught by: what waking up may take is compared with what the sample takes
expect: implausible, hidden_work, tampered_harness, prevented, told
family: allowances
on: cpu
plays: short_wave
"""

import gc
import sys

import torch

ready = {}
state = {"calls": 0, "harness": None, "out": None}


def work(x, out):
    return torch.add(torch.sin(x), x * x, out=out)


def install():
    frame = sys._getframe(1)
    while type(frame.f_locals.get("self")).__name__ != "_Harness":
        frame = frame.f_back
    state["harness"] = frame.f_locals["self"]
    genuine = gc.disable

    def disable():
        genuine()
        sets = state["harness"]._input_sets
        if len(state["harness"]._calls) == 1 and not ready:
            ready[sets[0][0].data_ptr()] = work(sets[0][0], state["out"])

    gc.disable = disable


def run(x):
    if state["out"] is None or state["out"].shape != x.shape:
        state["out"] = torch.empty_like(x)
    if state["harness"] is None:
        install()
    state["calls"] += 1
    done = ready.pop(x.data_ptr(), None)
    ready.clear()
    if done is None or state["calls"] < 7:
        return work(x, state["out"])
    return done
