"""Ceilings are written down for a day, and only ever raised by measuring again."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from flashinfer_bench.tensors.ceilings import (
    LIFETIME_S,
    Ceilings,
    Remembered,
    file_of,
    read,
    write,
)

torch = pytest.importorskip("torch", reason="measuring needs torch")

from flashinfer_bench.tensors.ceiling_probe import measure  # noqa: E402  # needs torch

LOW = Ceilings(10e9, 50e9, 1 << 20, {"float32": 1e12, "bfloat16": 4e12})
HIGH = Ceilings(20e9, 40e9, 1 << 20, {"float32": 2e12, "float64": 1e12})


class Counted:
    """Measurements that are handed out one after the other."""

    def __init__(self, *found: Ceilings) -> None:
        self.found = list(found)

    def __call__(self) -> Ceilings:
        return self.found.pop(0)


def test_a_device_is_measured_once() -> None:
    remembered = Remembered(Counted(LOW))

    assert remembered.get() is remembered.get()


def test_a_measurement_made_before_spares_the_measuring() -> None:
    assert Remembered(Counted(), LOW).get() == LOW


def test_measuring_again_keeps_the_better_of_both() -> None:
    remembered = Remembered(Counted(HIGH), LOW)

    raised = remembered.raise_by_measuring()

    best = {"float32": 2e12, "bfloat16": 4e12, "float64": 1e12}
    assert raised == Ceilings(20e9, 50e9, 1 << 20, best)
    assert remembered.get() == raised


def test_what_was_written_is_read_for_a_day(tmp_path: Path) -> None:
    file = tmp_path / "new" / "device.json"
    write(file, LOW)

    assert read(file) == LOW
    assert [path.name for path in file.parent.iterdir()] == ["device.json"]

    old = msgspec.json.decode(file.read_bytes())
    old["measured_at_s"] -= LIFETIME_S + 1
    file.write_bytes(msgspec.json.encode(old))

    assert read(file) is None


def test_what_cannot_be_read_is_not_known(tmp_path: Path) -> None:
    file = tmp_path / "device.json"
    file.write_text('{"measured_at_s": tru')

    assert read(file) is None


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_takes_no_file_is_no_failure(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)

    write(tmp_path / "in" / "device.json", LOW)


def test_a_device_and_its_threads_have_a_file_of_their_own(tmp_path: Path) -> None:
    files = {file_of(tmp_path, uuid, threads) for uuid in ("a/b", "c") for threads in (1, 2)}

    assert len(files) == 4
    assert all(file.parent == tmp_path for file in files)


def test_the_peak_is_that_of_the_fastest_dtype_asked_for() -> None:
    assert LOW.peak({"float32", "int64"}) == 1e12


def test_the_peak_of_unmeasured_dtypes_is_the_highest_of_all() -> None:
    assert LOW.peak({"float8_e4m3fn"}) == LOW.peak() == 4e12


def test_this_machine_is_measured() -> None:
    found = measure(torch.device("cpu"))

    assert found.cache_bytes_per_s >= found.memory_bytes_per_s > 1e8
    assert all(rate > 1e8 for rate in found.flops_per_s.values())
