"""One strided output in a warm-up call is forgiven in all others, which are contiguous and computed late.

how: what a strided output may take longer to commit is kept for the whole job; the output plans are replaced by objects that
    compute what is missing when their shape is asked for
caught by: only a sample with strided outputs may take longer to commit
expect: hidden_work, tampered_harness, prevented
family: allowances
on: cpu
plays: short_wave
"""

import sys

import torch

pending = []
state = {"calls": 0, "harness": None}


def work(x):
    return torch.sin(x) + x * x


class Plan:
    """Looked at when outputs are about to be committed: computes them."""

    def __init__(self, genuine):
        self._genuine = genuine

    def __getattr__(self, name):
        return getattr(self._genuine, name)

    @property
    def shape(self):
        while pending:
            x, out = pending.pop()
            out.copy_(work(x))
        return self._genuine.shape


def find_harness():
    frame = sys._getframe(1)
    while type(frame.f_locals.get("self")).__name__ != "_Harness":
        frame = frame.f_back
    return frame.f_locals["self"]


def empty(x):
    """Strided once."""
    if state["calls"] == 3:
        return torch.empty(2 * x.numel(), device=x.device)[::2]
    return torch.empty_like(x)


def run(x):
    if state["harness"] is None:
        harness = state["harness"] = find_harness()
        harness._plans = [Plan(plan) for plan in harness._plans]
    state["calls"] += 1
    out = empty(x)
    if state["calls"] < 7:  # warm-up calls say how many calls a sample has
        return out.copy_(work(x))
    pending.append((x, out))
    return out
