"""Builds of other solutions are changed in the cache.

how: files of other builds beside our own are opened for writing; none is changed
caught by: a solution sees and writes its own build only
expect: prevented
needs sandbox: yes
family: theft
plays: long_wave
"""

import os
from pathlib import Path

import torch


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def loot():
    own = Path(__file__).resolve().parent
    reason = "no other build to be seen"
    for level in (own.parent, own.parent.parent):
        for path in level.glob("*/*"):
            if path.is_file() and own not in path.parents and own.name not in path.name:
                try:
                    os.close(os.open(path, os.O_WRONLY))
                    return f"loot: may change {path}"
                except OSError as error:
                    reason = str(error)
    try:
        planted = own.parent / "flashinfer-bench-attack"
        planted.mkdir()
        planted.rmdir()
        return f"loot: may plant builds in {own.parent}"
    except OSError as error:
        return f"no loot: {reason or error}"


def run(x):
    if not hasattr(run, "tried"):
        run.tried = True
        try:
            print(loot())
        except OSError as error:
            print(f"no loot: {error}")
    return work(x)
