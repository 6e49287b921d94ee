"""The process becomes two in a timed call, and both answer.

how: `os.fork` within a call, and parent and child return to the harness: answers come twice on one channel
caught by: an answer that was not asked for ends the job
expect: RUNTIME_ERROR, INCORRECT_NUMERICAL
family: theft
on: cpu
plays: long_wave
"""

import os

import torch

calls = [0]

def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    calls[0] += 1
    out = work(x)
    if calls[0] == 8:
        os.fork()
    return out
