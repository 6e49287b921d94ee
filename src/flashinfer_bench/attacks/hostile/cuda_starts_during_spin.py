"""The work starts on another stream while the spin kernel still hides the launches, and is joined properly.

how: the side stream does not wait for the current one before it starts, so its kernels run before the first event;
    the current stream then waits for what has long been done
caught by: the spin fills the device, so that nothing starts beside it; the outside clock
expect: not_stopped
why not: 1.06 to 1.09 times as fast as its twin on an H200, which is within the tenth that a claim may be short by
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
        out = work(x)
    torch.cuda.current_stream().wait_stream(streams[0])
    out.record_stream(torch.cuda.current_stream())
    return out
