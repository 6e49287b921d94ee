"""What the processor can do is read when the module is loaded.

how: flags of `/proc/cpuinfo` and the size of a cache decide on a block size
plays: long_wave
"""

import pathlib

import torch


def flags():
    try:
        text = pathlib.Path("/proc/cpuinfo").read_text()
    except OSError:
        return set()
    lines = [line for line in text.splitlines() if line.startswith(("flags", "Features"))]
    return set(lines[0].partition(":")[2].split()) if lines else set()


BLOCK = 32768 if "avx2" in flags() else 16384


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)

def run(x):
    return torch.cat([work(part) for part in x.split(BLOCK)])
