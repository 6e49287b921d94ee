"""Two side streams share the work, and events join them.

how: `record_event` and `wait_event` in both directions, no stream is waited for by the host
plays: long_wave
on: cuda
"""

import torch

sides = []


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)

def run(x):
    if not sides:
        sides.extend((torch.cuda.Stream(), torch.cuda.Stream()))
    main = torch.cuda.current_stream()
    begun = main.record_event()
    out = torch.empty_like(x)
    for side, part, place in zip(sides, x.chunk(2), out.chunk(2)):
        side.wait_event(begun)
        with torch.cuda.stream(side):
            place.copy_(work(part))
            main.wait_event(side.record_event())
        x.record_stream(side)
        out.record_stream(side)
    return out
