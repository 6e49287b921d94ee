"""Processes that are our parent's children, not ours, fill the caches while the reference is timed.

how: `clone` is called with CLONE_PARENT, which makes siblings; they write to memory, and pause while a page shared with us says
    that our own call is running or has just been
caught by: a process is refused siblings by the filter of system calls
expect: prevented
family: clock
needs sandbox: yes
on: cpu
plays: long_wave
"""

import ctypes
import mmap
import os
import platform
import signal
import time

import torch

CLONE = {"x86_64": 56, "aarch64": 220}
CLONE_PARENT = 0x8000
libc = ctypes.CDLL(None)
last = ctypes.c_int64.from_buffer(mmap.mmap(-1, 4096))
started = []


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def burn():
    block = bytearray(48 << 20)
    zeros = bytes(1 << 16)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if time.monotonic_ns() - last.value < 1_500_000:
            time.sleep(2e-5)
            continue
        for at in range(0, len(block), len(zeros)):
            block[at : at + len(zeros)] = zeros
            if time.monotonic_ns() - last.value < 1_500_000:
                break
    os._exit(0)


def start_siblings():
    for _ in range(os.cpu_count()):
        if libc.syscall(CLONE[platform.machine()], CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0) == 0:
            burn()


def run(x):
    last.value = time.monotonic_ns()
    if not started:
        started.append(True)
        start_siblings()
    out = work(x)
    last.value = time.monotonic_ns()
    return out
