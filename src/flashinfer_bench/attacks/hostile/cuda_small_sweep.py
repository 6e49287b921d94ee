"""The buffer that evicts the L2 cache is replaced by a tiny one, so that inputs are read from the cache.

how: the clock's objects are found with the garbage collector, and every large byte buffer in them is shrunk
caught by: the time of a sweep is known; the harness's objects are looked at
expect: implausible, tampered_harness, prevented
family: clock
on: cuda
plays: short_wave
"""

import gc

import torch


def shrink():
    for found in gc.get_objects():
        attributes = getattr(found, "__dict__", None)
        if not isinstance(attributes, dict) or not str(type(found).__module__).startswith("flashinfer_bench"):
            continue
        for name, value in list(attributes.items()):
            if isinstance(value, torch.Tensor) and value.dtype is torch.uint8 and value.is_cuda:
                setattr(found, name, value[:1024].clone())


def run(x):
    if not hasattr(run, "patched"):
        run.patched = True
        shrink()
    return torch.sin(x) + x * x
