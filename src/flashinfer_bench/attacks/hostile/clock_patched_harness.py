"""The harness's own clock object is replaced by one that answers better.

how: the harness is found in the frames above the call; its attribute that holds the clock gets another object
caught by: the outside clock disagrees
expect: implausible, tampered_harness
family: clock
plays: long_wave
"""

import sys

import torch


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


class Wrapped:
    """A clock that is asked by everybody and answers a third."""

    def __init__(self, clock):
        self.clock = clock

    def __getattr__(self, name):
        return getattr(self.clock, name)

    def time_ns(self, *arguments):
        elapsed_ns, results = self.clock.time_ns(*arguments)
        return max(1, elapsed_ns // 3), results


def patch():
    frame = sys._getframe(1)
    while frame is not None:
        holder = frame.f_locals.get("self")
        for name, value in list(getattr(holder, "__dict__", {}).items()):
            if hasattr(value, "time_ns"):
                setattr(holder, name, Wrapped(value))
                return
        frame = frame.f_back


def run(x):
    if not hasattr(run, "patched"):
        run.patched = True
        patch()
    return work(x)
