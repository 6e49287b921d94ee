"""Of the samples of a block so many are left out that its median moves, in more than half of the blocks.

how: medians over blocks are reported, so two samples of three in six blocks of ten are enough, three tenths of all; the answer of the
    call before is returned; where none of those is checked, the time of the job is that of doing nothing
caught by: so many samples are checked that a share which moves medians is seldom missed
expect: failed_audit, INCORRECT_NUMERICAL
family: wrong
tries: 4
plays: long_wave
"""

import torch

state = {"calls": 0, "last": None}


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    state["calls"] += 1
    # Calls: one checked, three warm-up runs of five; then five untimed ones, and blocks with one untimed call each.
    timed = state["calls"] - 10
    if timed > 0 and timed % 3 and timed // 3 % 10 < 6 and state["last"] is not None:
        return state["last"].clone()
    state["last"] = work(x)
    return state["last"]
