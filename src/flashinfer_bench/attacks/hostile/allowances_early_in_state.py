"""All of a short sample is computed while the harness puts the arguments of its calls together.

how: the state that calls are passed is replaced by an object that computes the outputs when it is iterated over, and is empty
caught by: preparing may not take as much longer as a short sample takes at all
expect: early_compute, tampered_harness, prevented, failed_audit
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


class State:
    def __iter__(self):
        if not ready:
            work_ahead()
        return iter(())


def install():
    state["harness"]._state = State()


def run(x):
    if state["harness"] is None:
        state["harness"] = find_harness()
        install()
    if not isinstance(state["harness"]._state, State):  # a new trial
        install()
    state["calls"] += 1
    done = ready.pop(x.data_ptr(), None)
    if done is None or state["calls"] < 7:  # warm-up calls say how many calls a sample has
        return work(x)
    return done
