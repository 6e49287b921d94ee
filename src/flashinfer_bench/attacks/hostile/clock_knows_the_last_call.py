"""Only calls that are sure to be checked are computed.

how: the last call of each trial is always checked; a counter learnt from the first trial tells which that is
caught by: a secret share of all other calls is checked too
expect: failed_audit, INCORRECT_NUMERICAL
family: clock
plays: long_wave
"""

import torch

state = {"calls": 0, "last": None}


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    state["calls"] += 1
    if state["calls"] % 10 == 0 or state["last"] is None or state["calls"] < 5:
        state["last"] = work(x)
    return state["last"].clone()
