"""The current stream is another one when the call returns.

how: the first event lies on the stream that works, the second one is recorded on an idle stream
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
        streams.extend((torch.cuda.Stream(), torch.cuda.Stream()))
    torch.cuda.set_stream(streams[0])
    out = work(x)
    torch.cuda.set_stream(streams[1])
    return out
