"""A thread pool of its own does the work and idles between calls.

how: a `ThreadPoolExecutor` lives as long as the module; its threads wait on a queue
plays: long_wave
on: cpu
"""

from concurrent.futures import ThreadPoolExecutor

import torch

pool = ThreadPoolExecutor(max_workers=2)


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    return torch.cat(list(pool.map(work, x.chunk(2))))
