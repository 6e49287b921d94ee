"""Every loaded module that holds a clock function gets a slower one.

how: `sys.modules` is walked for names bound to `time.perf_counter_ns`, `perf_counter`, `monotonic_ns`
caught by: the outside clock disagrees
expect: implausible, tampered_harness, RUNTIME_ERROR
expect on cuda: prevented, tampered_harness
family: clock
plays: long_wave
"""

import sys
import time

import torch

def slowed(genuine):
    began = genuine()
    return lambda: began + (genuine() - began) / 3 if isinstance(began, float) else began + (genuine() - began) // 3


SLOWED = {
    genuine: slowed(genuine)
    for genuine in (time.perf_counter_ns, time.perf_counter, time.monotonic_ns, time.monotonic)
}


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def patch():
    for module in list(sys.modules.values()):
        for name, value in list(getattr(module, "__dict__", {}).items()):
            if callable(value) and type(value).__name__ == "builtin_function_or_method" and value in SLOWED:
                setattr(module, name, SLOWED[value])


def run(x):
    if not hasattr(run, "patched"):
        run.patched = True
        patch()
    return work(x)
