"""A file named `torch.py` is left where later processes may import it from.

how: `torch.py`, `sitecustomize.py` and `usercustomize.py` go to the working folder, the scratch folder and /tmp
caught by: workers start with isolated paths, and scratch folders go with the process
expect: prevented
family: theft
plays: long_wave
"""

import os
import tempfile
from pathlib import Path

import torch

SOURCE = "raise SystemExit('shadowed')\n"


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def run(x):
    if not hasattr(run, "tried"):
        run.tried = True
        for folder in {os.getcwd(), tempfile.gettempdir()}:
            for name in ("torch.py", "sitecustomize.py", "usercustomize.py"):
                try:
                    (Path(folder) / name).write_text(SOURCE)
                except OSError as error:
                    print(f"no loot: {error}")
    return work(x)
