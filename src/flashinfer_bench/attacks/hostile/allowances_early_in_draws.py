"""Each output is computed where its input is written, while that is in the cache.

how: what writes an input's content is wrapped, in a list of the harness
caught by: preparing may not take as much longer as a short sample takes at all; what writes inputs is looked at
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


def wrapped(genuine, x):
    def writing(choices):
        genuine(choices)
        ready[x.data_ptr()] = work(x)

    return writing


def install():
    maker = state["harness"]._maker
    for (x,), writers in zip(maker._sets, maker._writers, strict=False):
        is_replicated, genuine = writers[0]
        if getattr(genuine, "__name__", "") != "writing":
            writers[0] = (is_replicated, wrapped(genuine, x))


def run(x):
    if state["harness"] is None:
        state["harness"] = find_harness()
    state["calls"] += 1
    done = ready.pop(x.data_ptr(), None)
    if done is None:
        install()  # buffers are new ones now and then
    if done is None or state["calls"] < 7:  # warm-up calls say how many calls a sample has
        return work(x)
    return done
