"""Code is planted in installed packages: a `.pth` file, or a line in the harness.

how: files in site-packages and in this package are opened for writing; what could be created is removed again
caught by: a sandbox lets nothing be written but the scratch folder and caches
expect: prevented
needs sandbox: yes
family: theft
plays: long_wave
"""

import os
import sysconfig
from pathlib import Path

import torch


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def loot():
    import flashinfer_bench

    reason = ""
    planted = Path(sysconfig.get_paths()["purelib"]) / "flashinfer-bench-attack.pth"
    try:
        planted.write_text("")
        planted.unlink()
        return f"loot: may create {planted}"
    except OSError as error:
        reason = str(error)
    try:
        os.close(os.open(flashinfer_bench.__file__, os.O_WRONLY))
        return f"loot: may write {flashinfer_bench.__file__}"
    except OSError as error:
        reason = str(error)
    return f"no loot: {reason}"


def run(x):
    if not hasattr(run, "tried"):
        run.tried = True
        print(loot())
    return work(x)
