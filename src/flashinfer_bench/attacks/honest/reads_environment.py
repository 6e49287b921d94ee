"""Settings are read from the environment and from the processor's description.

how: `os.environ`, `os.cpu_count`, `platform` and `torch.get_num_threads` decide how the work is cut
plays: long_wave
"""

import os
import platform

import torch


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    wanted = int(os.environ.get("MY_KERNEL_CHUNKS", "0")) or min(2, os.cpu_count() or 1)
    chunks = wanted if platform.machine() else 1
    return torch.cat([work(part) for part in x.chunk(max(chunks, torch.get_num_threads() > 64))])
