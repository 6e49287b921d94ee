"""The first workload of a process is honest and shows how the harness works; work leaves the window in the second only.

how: when another size is asked for, `torch.default_generator` is replaced by an object that computes the outputs while it is
    seeded
caught by: each workload is watched as the first one is
expect: early_compute, tampered_harness, prevented
family: workloads
scenario: two workloads
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


class Generator:
    def __init__(self, genuine):
        self._genuine = genuine

    def __getattr__(self, name):
        return getattr(self._genuine, name)

    def manual_seed(self, seed):
        self._genuine.manual_seed(seed)
        sets = state["harness"]._input_sets
        if sets[0][0].numel() == state["first size"]:
            return
        if not state["is second"]:
            state.update({"is second": True, "calls": 0})
        work_ahead()


def install():
    state["is second"] = False
    state["first size"] = state["harness"]._input_sets[0][0].numel()
    torch.default_generator = Generator(torch.default_generator)


def run(x):
    if state["harness"] is None:
        state["harness"] = find_harness()
        install()
    state["calls"] += 1
    done = ready.pop(x.data_ptr(), None)
    if done is None or state["calls"] < 7:  # warm-up calls say how many calls a sample has
        return work(x)
    return done
