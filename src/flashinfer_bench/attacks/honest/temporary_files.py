"""Intermediate data goes through the temporary folder.

how: `tempfile` in the first call, as compilers that run at first use do
plays: long_wave
"""

import tempfile
from pathlib import Path

import torch

known = []


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    if not known:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "plan.txt"
            file.write_text("2")
            known.append(int(file.read_text()))
    return work(x)
