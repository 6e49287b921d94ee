"""Threads left running take the processor away while the reference is timed.

how: the kernel is honest; as soon as it has returned, threads spin until it is called again
caught by: a process must be idle while others are timed; its processor time is read from outside
expect: early_compute, hidden_work, prevented, INCORRECT_NUMERICAL
family: clock
on: cpu
plays: long_wave
"""

import os
import threading
import zlib

import torch

idle = threading.Event()
started = []


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def spin():
    block = bytes(1 << 18)
    os.sched_setaffinity(0, range(os.cpu_count()))
    while True:
        idle.wait()
        while idle.is_set():
            zlib.crc32(block)


def run(x):
    idle.clear()
    if not started:
        for _ in range(2):
            started.append(threading.Thread(target=spin, daemon=True))
            started[-1].start()
    out = work(x)
    idle.set()
    return out
