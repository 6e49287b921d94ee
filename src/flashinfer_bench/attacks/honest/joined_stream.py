"""Half of the work runs on a side stream that waits before and is waited for after.

how: `wait_stream` in both directions, and `record_stream` on what crosses over
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
    (side,) = streams
    half = x.numel() // 2
    main = torch.cuda.current_stream()
    out = torch.empty_like(x)
    side.wait_stream(main)
    with torch.cuda.stream(side):
        out[half:] = work(x[half:])
    out[:half] = work(x[:half])
    main.wait_stream(side)
    out.record_stream(side)
    return out
