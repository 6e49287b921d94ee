"""The harness's method that answers `go` is replaced by one that answers better.

how: the class is found through the frames above the call; its `go` reports a third of the time
caught by: the outside clock disagrees
expect: implausible, tampered_harness
family: clock
plays: long_wave
"""

import sys

import msgspec
import torch


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def patch():
    frame = sys._getframe(1)
    while frame is not None:
        holder = frame.f_locals.get("self")
        genuine = getattr(type(holder), "go", None)
        if genuine is not None:

            def go(self, *args, genuine=genuine, **kwargs):
                returned = genuine(self, *args, **kwargs)
                return msgspec.structs.replace(returned, elapsed_ns=max(1, returned.elapsed_ns // 3))

            type(holder).go = go
            return
        frame = frame.f_back


def run(x):
    if not hasattr(run, "patched"):
        run.patched = True
        patch()
    return work(x)
