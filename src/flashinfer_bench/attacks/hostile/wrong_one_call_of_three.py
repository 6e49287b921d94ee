"""Of three calls, one is computed.

how: two of three calls return the output of a call before
caught by: a secret share of the timed calls is checked; the more are skipped, the sooner one is found
expect: failed_audit, INCORRECT_NUMERICAL
family: wrong
plays: long_wave
"""

import torch

state = {"calls": 0, "last": None}


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    state["calls"] += 1
    if state["calls"] % 3 and state["calls"] > 3 and state["last"] is not None:
        return state["last"].clone()
    state["last"] = work(x)
    return state["last"]
