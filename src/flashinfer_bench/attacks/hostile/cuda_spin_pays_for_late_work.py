"""Most of a sample is computed after the clock has stopped, and the spin was made shorter by as much.

how: the list of output buffers, which nobody looks at, becomes one that completes a buffer when the harness takes it to
    commit it; the time that took last is taken off `duration_ns` of the spin, from inside of the call before. The first
    calls keep the host for 0.75 ms. Batches are honest
caught by: what a call of a batch takes by the judge's clock is held against what samples claim
expect: implausible, hidden_work, tampered_harness
family: clock
on: cuda
style: into
plays: long_wave
"""

import sys
import time

import torch

USUAL_NS, LEAST_NS = 1_000_000, 150_000
pending = []
state = {"harness": None, "genuine": USUAL_NS, "set": USUAL_NS, "taken": []}


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


class Buffers(list):
    """Completed when taken by number, which is how outputs are taken after the clock has stopped."""

    def __getitem__(self, which):
        if pending and isinstance(which, int):
            began = time.perf_counter_ns()
            x, out, most = pending.pop()
            out[:most] = work(x[:most])
            torch.cuda.synchronize()
            state["taken"] = [*state["taken"][-4:], time.perf_counter_ns() - began]
        return list.__getitem__(self, which)


def find_harness():
    frame = sys._getframe(1)
    while type(frame.f_locals.get("self")).__name__ != "_Harness":
        frame = frame.f_back
    return frame.f_locals["self"]


def run(x, out):
    began = time.perf_counter()
    harness = state["harness"] = state["harness"] or find_harness()
    spin = harness._clock._spin
    if spin.duration_ns != state["set"]:  # the judge has set it anew
        state["genuine"] = spin.duration_ns
    if state["genuine"] == USUAL_NS:  # warm-up
        state["set"] = USUAL_NS
        out.copy_(work(x))
        while len(harness._calls) == 1 and time.perf_counter() - began < 7.5e-4:
            pass
        return
    if type(harness._output_sets) is list:
        harness._output_sets = Buffers(harness._output_sets)
    is_lucky = len(harness._calls) == 1 and spin.duration_ns < state["genuine"]
    most = x.numel() * 15 // 16 if is_lucky else 0
    out[most:] = work(x[most:])
    if most:
        pending.append((x, out, most))
    last = sorted(state["taken"])[len(state["taken"]) // 2] if state["taken"] else 600_000
    state["set"] = max(LEAST_NS, state["genuine"] - last)
    if len(harness._calls) > 1:
        state["set"] = state["genuine"]
    spin.duration_ns = state["set"]
