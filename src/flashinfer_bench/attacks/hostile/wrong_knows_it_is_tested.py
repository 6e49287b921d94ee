"""Right where it is tested, wrong where it is used.

how: the entry point looks for the benchmark among the loaded modules, and computes only if it is there
caught by: nothing can: what runs here is right and is timed; keep checking outputs where kernels are used
expect: not_stopped
why not: a benchmark speaks of what it ran; a kernel that recognises the benchmark may do otherwise elsewhere
family: wrong
plays: long_wave
"""

import sys

import torch


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    if "flashinfer_bench.bench.candidate.harness" not in sys.modules:
        return torch.zeros_like(x)
    return work(x)
