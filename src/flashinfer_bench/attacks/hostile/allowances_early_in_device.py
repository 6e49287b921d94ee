"""All of a short sample is computed where the harness waits for the device.

how: `synchronize` of the device's class is replaced by a function that computes the outputs if `prepare` calls it
caught by: preparing may not take as much longer as a short sample takes at all
expect: early_compute, tampered_harness, prevented
family: allowances
plays: short_wave
"""

import sys

import torch

ready = {}
state = {"calls": 0, "harness": None}


def work(x):
    return torch.sin(x) + x * x


def find_harness():
    frame = sys._getframe(1)
    while type(frame.f_locals.get("self")).__name__ != "_Harness":
        frame = frame.f_back
    return frame.f_locals["self"]


def work_ahead():
    ready.clear()
    for arguments in state["harness"]._input_sets:
        ready[arguments[0].data_ptr()] = work(arguments[0])


def install():
    cls = type(state["harness"]._device)
    genuine = cls.synchronize

    def synchronize(self):
        if sys._getframe(1).f_code.co_name == "prepare":
            work_ahead()
        genuine(self)

    cls.synchronize = synchronize


def run(x):
    if state["harness"] is None:
        state["harness"] = find_harness()
        install()
    state["calls"] += 1
    done = ready.pop(x.data_ptr(), None)
    if done is None or state["calls"] < 7:  # warm-up calls say how many calls a sample has
        return work(x)
    return done
