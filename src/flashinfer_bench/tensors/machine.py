"""What the machine has, asked without torch."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

import psutil

_NVIDIA_DRIVER = Path("/proc/driver/nvidia/version")
_NVIDIA_SMI_TIMEOUT_S = 20


def processor_name() -> str:
    """Model name of the CPU."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine()


def physical_cores() -> int:
    """Cores, not hardware threads."""
    return psutil.cpu_count(logical=False) or psutil.cpu_count() or 1


def gpu_names() -> list[str]:
    """Names of the NVIDIA GPUs the driver knows, in its order."""
    if not _NVIDIA_DRIVER.exists() or shutil.which("nvidia-smi") is None:
        return []
    command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_NVIDIA_SMI_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [line.strip() for line in done.stdout.splitlines() if done.returncode == 0]
