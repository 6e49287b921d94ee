"""Child processes keep the processor busy while the reference is timed.

how: the first call forks two children into sessions of their own, which spin; while the kernel itself runs they are
    stopped by a signal
caught by: every process below a candidate counts as its own; nothing may run while others are timed
expect: early_compute, hidden_work, prevented, INCORRECT_NUMERICAL
family: clock
on: cpu
plays: long_wave
"""

import os
import signal

import torch

children = []


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def fork():
    pid = os.fork()
    if pid == 0:
        os.setsid()
        os.sched_setaffinity(0, range(os.cpu_count()))
        block = bytearray(32 << 20)
        while True:
            block[:] = bytes(len(block))
    return pid


def run(x):
    if not children:
        try:
            children.extend(fork() for _ in range(2))
        except OSError as error:
            print(f"no loot: {error}")
    for pid in children:
        os.kill(pid, signal.SIGSTOP)
    out = work(x)
    for pid in children:
        os.kill(pid, signal.SIGCONT)
    return out
