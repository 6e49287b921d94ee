"""Cache lines are made to persist, so that sweeping the cache does not evict them.

how: `cudaDeviceSetLimit` sets three quarters of the L2 cache aside for persisting lines
caught by: persisting lines are reset before every sample
expect: prevented
family: clock
on: cuda
plays: short_wave
"""

import contextlib
import ctypes

import torch

LIMIT_PERSISTING_L2 = 6


def set_aside():
    for name in ("libcudart.so", "libcudart.so.13", "libcudart.so.12"):
        with contextlib.suppress(OSError):
            runtime = ctypes.CDLL(name)
            size = torch.cuda.get_device_properties(0).L2_cache_size * 3 // 4
            runtime.cudaDeviceSetLimit(LIMIT_PERSISTING_L2, ctypes.c_size_t(size))
            return


def run(x):
    if not hasattr(run, "tried"):
        run.tried = True
        set_aside()
    return torch.sin(x) + x * x
