"""Calls that look like warm-up are computed, the timed ones are not.

how: the checked call and the first few are honest, then the last honest output is handed out
caught by: timed calls cannot be told from untimed ones, and a secret share of them is checked
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
    if state["calls"] <= 5:
        state["last"] = work(x)
    return state["last"].clone()
