"""What the machine has, asked without torch."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Iterable

_NVIDIA_DRIVER = Path("/proc/driver/nvidia/version")
_PROCESSORS = Path("/sys/devices/system/cpu")
_NVIDIA_SMI_TIMEOUT_S = 20
_UNKNOWN_CACHE_BYTES = 32 << 20
_LARGEST_CACHE_BYTES = 256 << 20


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


def processors_for(count: int, allowed: Iterable[int], *, system: Path = _PROCESSORS) -> list[int]:
    """Choose `count` logical processors: one of each core as far as that goes, the last ones first.

    The last cores see the fewest interrupts. `system` is the folder where Linux describes processors.
    """
    seen: set[tuple[str, str]] = set()
    first_of_core: list[int] = []
    siblings: list[int] = []
    for processor in sorted(allowed):
        topology = system / f"cpu{processor}" / "topology"
        core = (_read(topology / "physical_package_id"), _read(topology / "core_id"))
        is_known = all(core)
        (siblings if is_known and core in seen else first_of_core).append(processor)
        seen.add(core)
    if count <= len(first_of_core):
        return first_of_core[-count:]
    return first_of_core + siblings[: count - len(first_of_core)]


def last_level_cache_bytes(*, system: Path = _PROCESSORS) -> int:
    """Give the size of the largest caches all processors have together; 32 MiB where it is not told.

    Several groups of cores may each have one. More than 256 MiB is what a virtual machine's host has for
    all its guests, and is not believed.
    """
    found: dict[tuple[int, str], int] = {}
    for cache in system.glob("cpu[0-9]*/cache/index*"):
        level, size = _read(cache / "level"), _read(cache / "size")
        if level.isdigit() and size.endswith("K"):
            sharers = _read(cache / "shared_cpu_list") or cache.parent.parent.name
            found[int(level), sharers] = int(size[:-1]) << 10
    if not found:
        return _UNKNOWN_CACHE_BYTES
    last = max(level for level, _ in found)
    total = sum(size for (level, _), size in found.items() if level == last)
    return min(total, _LARGEST_CACHE_BYTES)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


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
