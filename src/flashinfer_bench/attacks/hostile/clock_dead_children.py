"""Children that have used much processor time end at the right moment, and take it with them.

how: children that have spun in the first call wait; in each block of the reference one of them ends and another thread of
    ours keeps the processor busy, so that less was used at the block's end than at its beginning
caught by: processor time never runs backwards; a child that ended is taken to have been busy since it was last seen
expect: background_compute, early_compute, hidden_work, implausible, prevented
family: clock
on: cpu
plays: long_wave
"""

import ctypes
import os
import shutil
import subprocess
import tempfile
import threading
import time

import torch

SOURCE = """
#include <time.h>
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + 1e-9 * t.tv_nsec; }
volatile long called;
void spin(double seconds) { double until = now() + seconds; called = 0; while (now() < until && !called) ; }
"""
folder = tempfile.mkdtemp()
with open(folder + "/spin.c", "w") as file:
    file.write(SOURCE)
command = [shutil.which("cc") or "gcc", "-O2", "-shared", "-fPIC", "-o", folder + "/spin.so", folder + "/spin.c"]
subprocess.run(command, check=True)
c = ctypes.CDLL(folder + "/spin.so")
c.spin.argtypes = [ctypes.c_double]
called = ctypes.c_long.in_dll(c, "called")
state = {"last": 0.0, "round": 0}
children = []


def start_children():
    for _ in range(40):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(writing)
            c.spin(0.02)
            os.read(reading, 1)
            os._exit(0)
        os.close(reading)
        children.append((child, writing))


def watch():
    seen = 0
    while True:
        time.sleep(3e-4)
        if state["round"] != seen and time.perf_counter() - state["last"] > 1.5e-3:
            seen = state["round"]
            if children:
                child, writing = children.pop()
                os.close(writing)
                os.waitpid(child, 0)
            c.spin(15e-3)


def run(x):
    called.value = 1
    if not state["round"]:
        start_children()
        time.sleep(1.0)
        threading.Thread(target=watch, daemon=True).start()
    y = torch.tanh(x) + torch.sin(x)
    out = torch.exp(-y * y) + torch.cos(3 * x)
    state["last"] = time.perf_counter()
    state["round"] += 1
    return out
