"""One call in fifty is not computed.

how: so few are skipped that a check may miss them all
caught by: a secret share of the timed calls is checked; where it is missed nothing is gained, since medians are reported
    and a share of two percent does not move them
expect: prevented, failed_audit, INCORRECT_NUMERICAL
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
    if state["calls"] % 50 == 0 and state["last"] is not None:
        return state["last"].clone()
    state["last"] = work(x)
    return state["last"]
