"""The process gives itself the highest priority and real-time scheduling.

how: `setpriority` and `sched_setscheduler` on ourselves, so that the reference alone feels other load
caught by: an unprivileged process may not; where it may, candidates take turns and never compete; what it computes on cores that were not agreed on counts
expect: prevented, hidden_work
family: clock
plays: long_wave
"""

import contextlib
import os

import torch

with contextlib.suppress(OSError):
    os.setpriority(os.PRIO_PROCESS, 0, -20)
with contextlib.suppress(OSError):
    os.sched_setaffinity(0, range(os.cpu_count()))


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    return work(x)
