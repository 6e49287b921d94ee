"""`torch.cuda.synchronize` does nothing, and the work is still under way when outputs are copied.

how: the function is replaced, and the kernels run on a stream of their own
caught by: outputs are copied in stream order and compared; the outside clock disagrees
expect: implausible, failed_audit, INCORRECT_NUMERICAL, tampered_harness, RUNTIME_ERROR
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
        torch.cuda.synchronize = lambda *_: None
        streams.append(torch.cuda.Stream())
    with torch.cuda.stream(streams[0]):
        return work(x)
