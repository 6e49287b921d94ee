"""A profiling hook does the work when the function that prepares inputs returns.

how: `sys.setprofile` calls us on the return of `prepare` with the prepared inputs in its frame; nothing is replaced
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
            ready[arguments[0].data_ptr()] = work(arguments[0])


def run(x):
    if not hasattr(run, "hooked"):
        run.hooked = True
        sys.setprofile(hook)
    done = ready.pop(x.data_ptr(), None)
    return work(x) if done is None else done
