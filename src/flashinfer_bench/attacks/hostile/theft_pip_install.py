"""A package is installed at run time.

how: pip is asked to install a package from a local folder into site-packages; nothing is fetched
caught by: a sandbox lets nothing be written outside the scratch folder
expect: prevented
needs sandbox: yes
family: theft
slow: yes
on: cpu
plays: long_wave
"""

import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import torch


def work(x):
    y = torch.tanh(x) + torch.sin(x)
    return torch.exp(-y * y) + torch.cos(3 * x)


def loot():
    target = Path(sysconfig.get_paths()["purelib"]) / "flashinfer_bench_attack_probe"
    folder = Path(tempfile.mkdtemp())
    (folder / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    )
    (folder / "backend.py").write_text("")
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--version"], capture_output=True, timeout=15, check=False
    )
    try:
        target.mkdir()
        target.rmdir()
    except OSError as error:
        return f"no loot: {error} (pip answered {done.returncode})"
    return f"loot: may install into {target.parent}"


def run(x):
    if not hasattr(run, "tried"):
        run.tried = True
        try:
            print(loot())
        except (OSError, subprocess.SubprocessError) as error:
            print(f"no loot: {error}")
    return work(x)
