"""Counters of energy on folders laid out as Linux lays them out, and on an NVML made of numbers."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flashinfer_bench.tensors.energy import gpu_energy, package_energy


def zone(powercap: Path, name: str, kind: str, used_uj: int, range_uj: int = 1_000_000) -> Path:
    folder = powercap / name
    folder.mkdir(parents=True)
    (folder / "name").write_text(f"{kind}\n")
    (folder / "max_energy_range_uj").write_text(f"{range_uj}\n")
    (folder / "energy_uj").write_text(f"{used_uj}\n")
    return folder / "energy_uj"


def test_packages_and_their_memory_are_added_up(tmp_path: Path) -> None:
    one = zone(tmp_path, "intel-rapl:0", "package-0", 100)
    two = zone(tmp_path, "intel-rapl:1", "package-1", 200)
    memory = zone(tmp_path, "intel-rapl:0:1", "dram", 300)
    core = zone(tmp_path, "intel-rapl:0:0", "core", 400)  # part of its package
    counter: Any = package_energy(tmp_path)

    for file, used_uj in ((one, 1_100), (two, 2_200), (memory, 3_300), (core, 9_999)):
        file.write_text(str(used_uj))

    assert counter.read_j() == pytest.approx(6_000e-6)


def test_a_counter_that_begins_anew_goes_on(tmp_path: Path) -> None:
    file = zone(tmp_path, "intel-rapl:0", "package-0", 999_990, range_uj=999_999)
    counter: Any = package_energy(tmp_path)

    file.write_text("10")
    first = counter.read_j()
    file.write_text("30")

    assert first == pytest.approx(20e-6)
    assert counter.read_j() == pytest.approx(40e-6)


def test_a_machine_without_rapl_says_so(tmp_path: Path) -> None:
    assert "no RAPL counter" in str(package_energy(tmp_path))


def test_a_counter_that_is_no_number_says_so(tmp_path: Path) -> None:
    zone(tmp_path, "intel-rapl:0", "package-0", 1).write_text("gone")

    assert "cannot be read" in str(package_energy(tmp_path))


class _NvmlError(Exception):
    pass


def _nvml(read: Any) -> SimpleNamespace:
    return SimpleNamespace(
        NVMLError=_NvmlError,
        nvmlInit=lambda: None,
        nvmlDeviceGetHandleByUUID=lambda uuid: uuid,
        nvmlDeviceGetTotalEnergyConsumption=read,
    )


def test_nvml_counts_in_millijoules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", _nvml(lambda _: 12_500))

    counter: Any = gpu_energy("GPU-1")

    assert (counter.source, counter.read_j()) == ("nvml", 12.5)


def test_a_card_that_counts_no_energy_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(_: object) -> int:
        raise _NvmlError("Not Supported")

    monkeypatch.setitem(sys.modules, "pynvml", _nvml(refuses))

    assert "Not Supported" in str(gpu_energy("GPU-1"))
