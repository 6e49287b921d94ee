"""The number that says how long a call took is changed in memory.

how: the builtin object behind `perf_counter_ns` is redirected with `ctypes` to the processor time of its thread, and
    the work is done by another thread
caught by: the outside clock disagrees
expect: implausible, tampered_harness
expect on cuda: implausible, prevented, tampered_harness
family: clock
plays: long_wave
"""

import ctypes
import queue
import threading
import time

import torch

orders = queue.SimpleQueue()


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def workhorse():
    while True:
        x, out, done = orders.get()
        out.append(work(x))
        done.set()


def redirect(builtin, other):
    """A builtin function object holds a pointer to its method definition behind its header."""
    place = id(builtin) + 2 * ctypes.sizeof(ctypes.c_void_p)
    source = id(other) + 2 * ctypes.sizeof(ctypes.c_void_p)
    ctypes.memmove(place, source, ctypes.sizeof(ctypes.c_void_p))


def patch():
    from flashinfer_bench.bench.timing import wall

    redirect(wall._now_ns, time.thread_time_ns)
    threading.Thread(target=workhorse, daemon=True).start()


patch()


def run(x):
    out, done = [], threading.Event()
    orders.put((x, out, done))
    done.wait()
    return out[0]
