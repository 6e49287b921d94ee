"""More threads than were agreed on are used.

how: `torch.set_num_threads` and the affinity are raised to all cores of the machine
caught by: threads and cores are part of the settings and of the trace; a sandbox cannot take this back
expect: not_stopped
why not: a process may widen its own affinity up to its cpuset; run in a cpuset where cores are a scarce good
family: clock
on: cpu
plays: long_wave
"""

import contextlib
import os

import torch


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    if not hasattr(run, "tried"):
        run.tried = True
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, range(os.cpu_count()))
        torch.set_num_threads(os.cpu_count())
    return work(x)
