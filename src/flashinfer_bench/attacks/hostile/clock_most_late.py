"""A quarter of the work is done in the window, the rest before the outputs are committed.

how: a profiling hook computes the rest of each output when `time_ns` returns; with two cores allowed, the
    processor time alone would not give it away
caught by: the time from the end of the window until the outputs are committed
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
            quarter = x.numel() // 4
            out[quarter:] = work(x[quarter:])
        promised.clear()


def run(x):
    if not hasattr(run, "hooked"):
        run.hooked = True
        sys.setprofile(hook)
    quarter = x.numel() // 4
    out = torch.empty_like(x)
    out[:quarter] = work(x[:quarter])
    promised.append((x, out))
    return out
