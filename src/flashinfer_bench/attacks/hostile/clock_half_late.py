"""Half of the work is done in the window, half before the outputs are committed.

how: a profiling hook computes the second half of each output when `time_ns` returns; with two cores allowed, the
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
            half = x.numel() // 2
            out[half:] = work(x[half:])
        promised.clear()


def run(x):
    if not hasattr(run, "hooked"):
        run.hooked = True
        sys.setprofile(hook)
    half = x.numel() // 2
    out = torch.empty_like(x)
    out[:half] = work(x[:half])
    promised.append((x, out))
    return out
