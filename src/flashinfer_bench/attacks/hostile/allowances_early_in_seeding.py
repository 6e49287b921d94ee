"""All of a short sample is computed while the harness seeds torch's generator, which the rules forgive.

how: `torch.default_generator` is replaced by an object whose `manual_seed`, called when the inputs are there, computes the
    outputs; some 25 µs and three tenths of preparing are forgiven a sample
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


class Generator:
    def __init__(self, genuine):
        self._genuine = genuine

    def __getattr__(self, name):
        return getattr(self._genuine, name)

    def manual_seed(self, seed):
        self._genuine.manual_seed(seed)
        work_ahead()


def install():
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
