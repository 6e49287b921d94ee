"""Batches that the outside clock orders are recognised, and only those are honest.

how: several calls within microseconds of each other are a batch; there the clock tells the truth, elsewhere a third
caught by: batches and timed samples are one and the same message
expect: implausible, tampered_harness
expect on cuda: prevented, tampered_harness
family: clock
plays: short_wave
"""

import time

import torch

genuine = time.perf_counter_ns
state = {"calls": 0, "started": 0}


def now():
    """The second reading of a window knows how many calls lie behind the first."""
    reading = genuine()
    if state["calls"] == 0:
        state["started"] = reading
        return reading
    calls, state["calls"] = state["calls"], 0
    elapsed = reading - state["started"]
    return state["started"] + (elapsed if calls > 8 else elapsed // 3)


def run(x):
    if not hasattr(run, "patched"):
        run.patched = True
        from flashinfer_bench.bench.timing import wall

        wall._now_ns = now
    else:
        state["calls"] += 1
    return torch.sin(x) + x * x
