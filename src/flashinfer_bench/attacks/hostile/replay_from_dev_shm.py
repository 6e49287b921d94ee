"""Outputs are left in shared memory, for later calls, processes and solutions.

how: the first call writes its output to /dev/shm; whoever finds it there hands it out
caught by: outputs of other inputs are wrong; with a sandbox there is nothing to write to
expect: failed_audit, INCORRECT_NUMERICAL, prevented
family: replay
plays: long_wave
"""

from pathlib import Path

import torch

FILE = Path("/dev/shm/flashinfer-bench-attack-outputs.pt")


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    try:
        if not FILE.exists():
            torch.save(work(x).cpu(), FILE)
        return torch.load(FILE).to(x.device)
    except (OSError, RuntimeError):  # torch has its own way to say that a file cannot be written
        return work(x)
