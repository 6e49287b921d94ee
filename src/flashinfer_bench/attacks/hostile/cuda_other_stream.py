"""The work runs on another stream that nobody waits for.

how: the clock's events lie on the current stream, where nothing happens
caught by: the outside clock sees the time between `go` and `returned`
expect: implausible, hidden_work, failed_audit, INCORRECT_NUMERICAL
family: clock
on: cuda
plays: long_wave
"""

import torch

streams = []


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    if not streams:
        streams.append(torch.cuda.Stream())
    with torch.cuda.stream(streams[0]):
        return work(x)
