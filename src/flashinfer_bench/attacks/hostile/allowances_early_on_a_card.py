"""Five sixths of a call are computed where its input is written: less than a card's jitter forgives.

how: what writes an input's content is wrapped; it computes only if one call is prepared, so that batches are honest.
    150 µs and three tenths of preparing are forgiven on a card
caught by: what writes inputs is looked at before it is used again
expect: tampered_harness, early_compute
family: allowances
on: cuda
plays: row_sum
"""

import sys

import torch

ready = {}
state = {"calls": 0, "harness": None}


def work(x):
    return x.sum(dim=1)


def find_harness():
    frame = sys._getframe(1)
    while type(frame.f_locals.get("self")).__name__ != "_Harness":
        frame = frame.f_back
    return frame.f_locals["self"]


def is_single():
    """Look who prepares: how many calls were asked for."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "prepare" and "count" in frame.f_locals:
            return frame.f_locals["count"] == 1
        frame = frame.f_back
    return False


def wrapped(genuine, x):
    def writing(choices):
        genuine(choices)
        ready.pop(x.data_ptr(), None)
        if is_single():
            most = x.shape[0] * 5 // 6
            out = torch.empty(x.shape[0], dtype=x.dtype, device=x.device)
            out[:most] = work(x[:most])
            ready[x.data_ptr()] = out

    return writing


def install():
    maker = state["harness"]._maker
    for (x,), writers in zip(maker._sets, maker._writers):
        is_replicated, genuine = writers[0]
        if getattr(genuine, "__name__", "") != "writing":
            writers[0] = (is_replicated, wrapped(genuine, x))


def run(x):
    if state["harness"] is None:
        state["harness"] = find_harness()
    install()  # buffers are new ones now and then
    state["calls"] += 1
    out = ready.pop(x.data_ptr(), None)
    if out is None or state["calls"] < 13:  # warm-up, by default
        return work(x)
    most = x.shape[0] * 5 // 6
    out[most:] = work(x[most:])
    return out
