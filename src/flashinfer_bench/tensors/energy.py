"""Counters of energy: NVML's of a GPU, RAPL's of a processor's packages and their memory."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

POWERCAP = Path("/sys/class/powercap")
_ZONES = "intel-rapl:*"  # AMD's too: Linux gives them the same name
_COUNTED = ("package", "dram")


class EnergyCounter(Protocol):
    """Counts what a device has used."""

    source: Literal["nvml", "rapl"]

    def read_j(self) -> float:
        """Read how many joules were used since some time in the past."""
        ...


class GpuEnergy:
    """A whole card, as NVML counts it since the driver was loaded; it moves every 20 to 100 ms."""

    source: Literal["nvml", "rapl"] = "nvml"

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml, self._handle = nvml, handle

    def read_j(self) -> float:
        """Read the counter, which NVML gives in millijoules."""
        return float(self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._handle)) / 1e3


@dataclass(slots=True)
class _Zone:
    """One of RAPL's counters, which begins anew at its range."""

    file: Path
    range_uj: int
    last_uj: int = 0
    used_uj: int = 0

    def read_uj(self) -> int:
        now_uj = int(self.file.read_text())
        self.used_uj += (now_uj - self.last_uj) % (self.range_uj + 1)
        self.last_uj = now_uj
        return self.used_uj


@dataclass(slots=True)
class PackageEnergy:
    """All packages of the machine and the memory RAPL counts apart: idle cores and other programs included."""

    zones: Sequence[_Zone]
    source: Literal["nvml", "rapl"] = field(default="rapl")

    def read_j(self) -> float:
        """Add the counters up; RAPL gives microjoules."""
        return sum(zone.read_uj() for zone in self.zones) / 1e6


def gpu_energy(uuid: str) -> EnergyCounter | str:
    """Open the counter of one card, or say why there is none."""
    try:
        pynvml: Any = importlib.import_module("pynvml")  # optional
    except ImportError:
        return "nvidia-ml-py is not installed: pip install 'flashinfer-bench[cuda]'"
    try:
        pynvml.nvmlInit()
        counter = GpuEnergy(pynvml, pynvml.nvmlDeviceGetHandleByUUID(uuid))
        counter.read_j()
    except pynvml.NVMLError as error:
        return f"NVML has no energy counter of this card: {error}"
    return counter


def package_energy(powercap: Path = POWERCAP) -> EnergyCounter | str:
    """Open RAPL's counters, or say why there are none."""
    zones = [zone for zone in sorted(powercap.glob(_ZONES)) if _is_counted(zone)]
    if not zones:
        return f"this processor, or the virtual machine, shows no RAPL counter in {powercap}"
    try:
        counter = PackageEnergy([_opened(zone) for zone in zones])
    except PermissionError as error:
        return f"{error.filename} is for root only: run as root, or sudo chmod a+r {error.filename}"
    except (OSError, ValueError) as error:
        return f"a RAPL counter cannot be read: {error}"
    return counter


def _is_counted(zone: Path) -> bool:
    try:
        return (zone / "name").read_text().startswith(_COUNTED)
    except OSError:
        return False


def _opened(zone: Path) -> _Zone:
    file = zone / "energy_uj"
    return _Zone(
        file, int((zone / "max_energy_range_uj").read_text()), last_uj=int(file.read_text())
    )
