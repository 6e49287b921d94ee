"""Clocks are locked while a process lives, and free again however it ends: a real guard, an NVML that writes down."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from flashinfer_bench.bench.parent.clock_lock import ClockLock
from flashinfer_bench.errors import DeviceError

NVML = """
import pathlib

NVML_CLOCK_SM = 1

class NVMLError(Exception):
    pass

def _note(line):
    with pathlib.Path({log!r}).open("a") as file:
        file.write(line + "\\n")

def nvmlInit():
    pass

def nvmlDeviceGetHandleByUUID(uuid):
    return uuid

def nvmlDeviceSetGpuLockedClocks(handle, low, high):
    {refusal}
    _note(f"locked {{handle}} {{low:#x}} {{high:#x}}")

def nvmlDeviceResetGpuLockedClocks(handle):
    _note(f"free {{handle}}")

def nvmlDeviceGetClockInfo(handle, kind):
    return 1500

def nvmlDeviceGetMaxClockInfo(handle, kind):
    return 1980
"""
LOCKED, FREE = "locked GPU-1 0xffffff01 0xffffff01", "free GPU-1"
HOLDER = (
    "from flashinfer_bench.bench.parent.clock_lock import ClockLock\n"
    "lock = ClockLock('GPU-1')\n"
    "print(lock.clock_mhz, lock.guard_pid, flush=True)\n"
    "input()\n"
)
DEADLINE_S = 20.0


def put_nvml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, refusal: str = "pass") -> Path:
    """Put an NVML onto the path of all processes started from now on."""
    log = tmp_path / "log"
    log.touch()
    text = NVML.replace("{{", "{").replace("}}", "}")
    text = text.replace("{log!r}", repr(str(log))).replace("{refusal}", refusal)
    (tmp_path / "pynvml.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "pynvml", raising=False)
    return log


def awaited(log: Path, lines: list[str]) -> list[str]:
    """Give the lines of the log when they are these, or after a while."""
    until_s = time.monotonic() + DEADLINE_S
    while (found := log.read_text().splitlines()) != lines and time.monotonic() < until_s:
        time.sleep(0.05)
    return found


def held_by_a_process() -> tuple[subprocess.Popen[str], int]:
    """A process that holds a lock, and its guard's id."""
    command = [sys.executable, "-c", HOLDER]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    clock_mhz, guard = holder.stdout.readline().split()
    assert clock_mhz == "1500.0"
    return holder, int(guard)


def test_clocks_are_locked_at_their_base_and_free_when_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = put_nvml(tmp_path, monkeypatch)

    lock = ClockLock("GPU-1")
    while_held = log.read_text().splitlines()
    lock.release()

    assert lock.clock_mhz == 1500.0
    assert while_held == [LOCKED]
    assert log.read_text().splitlines() == [LOCKED, FREE]


def test_clocks_are_free_again_after_kill_9_of_the_holder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = put_nvml(tmp_path, monkeypatch)
    holder, _ = held_by_a_process()

    holder.kill()
    holder.communicate()

    assert awaited(log, [LOCKED, FREE]) == [LOCKED, FREE]


def test_a_holder_whose_guard_was_killed_frees_them_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = put_nvml(tmp_path, monkeypatch)
    lock = ClockLock("GPU-1")

    os.kill(lock.guard_pid, signal.SIGKILL)
    lock.release()

    assert log.read_text().splitlines() == [LOCKED, FREE]


def test_a_guard_is_not_ended_by_what_ends_a_terminals_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = put_nvml(tmp_path, monkeypatch)
    lock = ClockLock("GPU-1")

    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(lock.guard_pid, each)
    while_held = log.read_text().splitlines()
    lock.release()

    assert while_held == [LOCKED]
    assert log.read_text().splitlines() == [LOCKED, FREE]


def test_who_may_not_lock_hears_why_and_what_free_clocks_cost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_nvml(tmp_path, monkeypatch, refusal="raise NVMLError('Insufficient Permissions')")

    with pytest.raises(DeviceError) as refused:
        ClockLock("GPU-1")

    assert "Insufficient Permissions: run as root or with CAP_SYS_ADMIN" in str(refused.value)
    assert "now 1500 MHz, 1980 MHz at most" in str(refused.value)
    assert "up to 32% longer" in str(refused.value)


def test_without_nvml_the_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pynvml.py").write_text("raise ImportError('none here')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    with pytest.raises(DeviceError, match="nvidia-ml-py is not installed"):
        ClockLock("GPU-1")
