"""More threads than were agreed on are used.

how: `torch.set_num_threads` and the affinity are raised to all cores of the machine
caught by: the processor time of a sample on the cores that were agreed on; where these are all there are, nothing is gained
expect: early_compute, hidden_work, background_compute, prevented
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
