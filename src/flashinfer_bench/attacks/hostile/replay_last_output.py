"""Every second call gets the output of the call before.

how: a flag alternates between working and handing out what is there
caught by: a secret share of the timed calls is checked; the last of each trial always
expect: failed_audit, INCORRECT_NUMERICAL
family: replay
plays: long_wave
"""

import torch

state = {"turn": 0, "last": None}


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    state["turn"] += 1
    if state["turn"] % 2 or state["last"] is None:
        state["last"] = work(x)
    return state["last"].clone()
