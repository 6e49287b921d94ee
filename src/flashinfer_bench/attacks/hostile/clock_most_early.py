"""Three quarters of the work are done while inputs are prepared, the rest when it is asked for.

how: a profiling hook computes most of each output early, so that less is amiss
caught by: the processor time of preparing, compared with that of a process that only prepares
expect: early_compute, hidden_work, implausible, tampered_harness
family: clock
plays: long_wave
"""

import sys

import torch

ready = {}


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def hook(frame, event, result):
    if event == "return" and frame.f_code.co_name == "prepare" and isinstance(result, list):
        ready.clear()
        for arguments in result:
            x = arguments[0]
            out = torch.empty_like(x)
            out[: x.numel() * 3 // 4] = work(x[: x.numel() * 3 // 4])
            ready[x.data_ptr()] = out


def run(x):
    if not hasattr(run, "hooked"):
        run.hooked = True
        sys.setprofile(hook)
    out = ready.pop(x.data_ptr(), None)
    if out is None:
        return work(x)
    out[x.numel() * 3 // 4 :] = work(x[x.numel() * 3 // 4 :])
    return out
