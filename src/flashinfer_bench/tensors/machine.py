"""What the machine has, asked without torch."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import itertools
import platform
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from flashinfer_bench.data import settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_NVIDIA_DRIVER = Path("/proc/driver/nvidia/version")
_PROCESSORS = Path("/sys/devices/system/cpu")
_NVIDIA_SMI_TIMEOUT_S = 20
_CARD, _INSTANCE = "GPU-", "MIG-"
_CARD_LINE = re.compile(r"GPU \d+: (.+) \(UUID: (GPU-[^)]+)\)")
_INSTANCE_LINE = re.compile(r"\s+MIG (\S+)\s+Device\s+\d+: \(UUID: (MIG-[^)]+)\)")
_VERSION = re.compile(r"^Version: (\S+)", re.MULTILINE)
_LEADING_NUMBER = re.compile(r"\+?(\d+)", re.ASCII)
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


@dataclass(frozen=True, slots=True)
class VisibleGpus:
    """The GPUs that CUDA shows this process, as far as that can be told without CUDA."""

    names: tuple[str, ...] = ()
    """In CUDA's order: the first one is `cuda:0`."""
    is_order_known: bool = True
    """False where the driver's order stands in for CUDA's, and names depend on it."""


def gpu_names() -> list[str]:
    """Names of the NVIDIA GPUs that CUDA shows this process."""
    return list(visible_gpus().names)


def visible_gpus() -> VisibleGpus:
    """Ask the driver for the GPUs, and read `CUDA_VISIBLE_DEVICES` as CUDA and torch do.

    The driver counts GPUs by their place on the bus. CUDA does so with CUDA_DEVICE_ORDER=PCI_BUS_ID only; by default
    the fastest comes first, and which one that is CUDA alone knows. It does not matter where all have one name, nor
    where UUIDs choose them: these are taken in the order in which they are listed. In MIG mode the driver tells which
    instance a UUID is, and CUDA shows one instance to a process; which one an index means CUDA alone knows.
    """
    gpus = _driver_gpus()
    cards = [gpu for gpu in gpus if gpu.uuid.startswith(_CARD)]
    mask = settings.visible_gpus()
    if mask is not None and mask.startswith(_CARD):
        return VisibleGpus(_names(_chosen_by_uuid(mask, cards, _CARD)))
    if mask is not None and mask.startswith(_INSTANCE):
        instances = [gpu for gpu in gpus if gpu.uuid.startswith(_INSTANCE)]
        return VisibleGpus(_names(_chosen_by_uuid(mask, instances, _INSTANCE)[:1]))
    is_known = settings.are_gpus_in_bus_order() or len(set(_names(cards))) <= 1
    chosen = cards if mask is None else _chosen_by_index(mask, cards)
    return VisibleGpus(_names(chosen), is_known or not chosen)


@dataclass(frozen=True, slots=True)
class _Gpu:
    name: str
    uuid: str


def _names(gpus: Iterable[_Gpu]) -> tuple[str, ...]:
    return tuple(gpu.name for gpu in gpus)


def _chosen_by_index(mask: str, cards: Sequence[_Gpu]) -> list[_Gpu]:
    """Take what comes before the first word that is no card's index; nothing where one is repeated."""
    numbers = (
        _LEADING_NUMBER.match(word.strip()) for word in mask.split(",")
    )  # to CUDA, `1st` is 1
    indices = [int(number[1]) for number in itertools.takewhile(bool, numbers) if number]
    if len(set(indices)) < len(indices):
        return []
    return [cards[index] for index in itertools.takewhile(lambda i: i < len(cards), indices)]


def _chosen_by_uuid(mask: str, gpus: Sequence[_Gpu], kind: str) -> list[_Gpu]:
    """Take what comes before the first word that begins no UUID, or several; nothing where one is repeated."""
    words = list(itertools.takewhile(lambda word: word.startswith(kind), mask.split(",")))
    found = ([gpu for gpu in gpus if gpu.uuid.startswith(word)] for word in words)
    chosen = [only for only, *_ in itertools.takewhile(lambda each: len(each) == 1, found)]
    is_repeated = len(set(words)) < len(words) or len(set(chosen)) < len(chosen)
    return [] if is_repeated else chosen


def _driver_gpus() -> list[_Gpu]:
    """List the GPUs the driver knows, each followed by its MIG instances; a name is what CUDA calls it."""
    if not _NVIDIA_DRIVER.exists() or shutil.which("nvidia-smi") is None:
        return []
    try:
        done = subprocess.run(
            ["nvidia-smi", "-L"],
            capture_output=True,
            text=True,
            timeout=_NVIDIA_SMI_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    found: list[_Gpu] = []
    card = ""
    for line in done.stdout.splitlines() if done.returncode == 0 else ():
        if (match := _CARD_LINE.match(line)) is not None:
            card = match[1]
            found.append(_Gpu(card, match[2]))
        elif (match := _INSTANCE_LINE.match(line)) is not None:
            found.append(_Gpu(f"{card} MIG {match[1]}", match[2]))
    return found


def package_version(name: str) -> str:
    """Give the version of an installed package from the first lines of its metadata; all of them take a reader of mail.

    Raises `importlib.metadata.PackageNotFoundError`.
    """
    found = importlib.metadata.distribution(name)
    version = _VERSION.search(found.read_text("METADATA") or "")
    return found.version if version is None else version[1]


@functools.cache
def package_versions() -> dict[str, str]:
    """Give the versions of this package, of the kernel compilers that are installed, and of Python."""
    versions = {"flashinfer_bench": package_version("flashinfer-bench")}
    for name in ("triton", "tilelang"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = package_version(name)
    return versions | {"python": platform.python_version()}
