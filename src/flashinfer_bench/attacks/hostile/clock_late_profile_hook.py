"""A profiling hook does the work when the clock's own function returns.

how: `sys.setprofile` calls us on every return in this thread, also on that of `time_ns`; nothing is replaced
caught by: the processor time of a sample, which counts what happens until the outputs are committed
expect: hidden_work, implausible, tampered_harness
family: clock
plays: long_wave
"""

import sys

import torch

promised = []


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def hook(frame, event, _):
    if event == "return" and promised and frame.f_code.co_name == "time_ns":
        for x, out in promised:
            out.copy_(work(x))
        promised.clear()


def run(x):
    if not hasattr(run, "hooked"):
        run.hooked = True
        sys.setprofile(hook)
    out = torch.empty_like(x)
    promised.append((x, out))
    return out
