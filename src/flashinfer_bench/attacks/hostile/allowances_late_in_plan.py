"""Outputs are computed between the return of the calls and their commit, where strided outputs are forgiven much.

how: the output plans, which the harness looks at before it commits, are replaced by objects that compute what is missing when
    their shape is asked for; outputs are every second element of a buffer, for which 10 ns each are forgiven
caught by: committing strided outputs may take as long as copying them takes
expect: hidden_work, tampered_harness, prevented
family: allowances
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
    """Strided: that is forgiven."""
    return torch.empty(2 * x.numel(), device=x.device)[::2]


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
