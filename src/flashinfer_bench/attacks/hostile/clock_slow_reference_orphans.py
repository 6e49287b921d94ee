"""Processes that are nobody's children keep the machine busy while the reference is timed.

how: two forks make orphans, which are no descendants of ours; they write to memory on all cores, and pause while a
    page shared with us says that our own call is running
caught by: everything below the fork server is watched while others are timed
expect: background_compute, early_compute, hidden_work, prevented
family: clock
on: cpu
plays: long_wave
"""

import mmap
import os
import time

import torch

flag = mmap.mmap(-1, 4096)
started = []


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def burn():
    os.setsid()
    os.sched_setaffinity(0, range(os.cpu_count()))
    block = torch.ones(1 << 20)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if flag[0] == 1:
            block.mul_(1.0000001)
        else:
            time.sleep(2e-5)
    os._exit(0)


def run(x):
    flag[0] = 0
    if not started:
        started.append(True)
        for _ in range(os.cpu_count()):
            child = os.fork()
            if child == 0:
                if os.fork() == 0:
                    burn()
                os._exit(0)
            os.waitpid(child, 0)
    out = work(x)
    flag[0] = 1
    return out
