"""The state a machine is in: load, power management, memory pages, what a sandbox could be made of."""

from __future__ import annotations

import ctypes
import errno
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

_LOOK_S = 0.5
_BUSY_SHARE = 0.05
_MOST_PROCESSES = 5
_PROBE_TIMEOUT_S = 10
_LANDLOCK_CREATE_RULESET = 444  # the same number on every architecture
_LANDLOCK_VERSION_FLAG = 1
_CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000
_FREQUENCY = Path("/sys/devices/system/cpu/cpu0/cpufreq")
_TURBO_FILES = (
    (Path("/sys/devices/system/cpu/intel_pstate/no_turbo"), "0"),
    (Path("/sys/devices/system/cpu/cpufreq/boost"), "1"),
)
_HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
_QUOTA = Path("/sys/fs/cgroup/cpu.max")
_SECCOMP_ACTIONS = Path("/proc/sys/kernel/seccomp/actions_avail")


def busiest_processes(*, seconds: float = _LOOK_S) -> list[tuple[str, float]]:
    """Watch for a moment which other programs compute: processors used by name, no users, no arguments."""
    own = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    watched = [each for each in psutil.process_iter(["name"]) if each.pid not in own]
    for each in watched:
        _processors_used(each)
    time.sleep(seconds)
    used: dict[str, float] = {}
    for each in watched:
        name = each.info["name"] or "?"
        used[name] = used.get(name, 0.0) + _processors_used(each)
    busy = [(name, share) for name, share in used.items() if share > _BUSY_SHARE]
    return sorted(busy, key=lambda each: -each[1])[:_MOST_PROCESSES]


def governor(folder: Path = _FREQUENCY) -> str | None:
    """Name the CPU frequency governor; None where the kernel does not say."""
    return _read(folder / "scaling_governor")


def has_turbo() -> bool | None:
    """Tell whether the processor may exceed its base clock; None where the kernel does not say."""
    for file, on in _TURBO_FILES:
        text = _read(file)
        if text is not None:
            return text == on
    return None


def huge_pages(file: Path = _HUGE_PAGES) -> str | None:
    """Say when memory is backed by huge pages: `always`, `madvise` or `never`."""
    match = re.search(r"\[(\w+)\]", _read(file) or "")
    return match.group(1) if match else None


def cpu_quota(file: Path = _QUOTA) -> float | None:
    """Give the processors a control group may use; None where nothing limits them."""
    quota, _, period = (_read(file) or "max").partition(" ")
    return None if quota == "max" or not period else int(quota) / int(period)


def landlock_abi() -> int:
    """Give the version of landlock the kernel offers; 0 for none."""
    version: int = ctypes.CDLL(None, use_errno=True).syscall(
        _LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), _LANDLOCK_VERSION_FLAG
    )
    return max(0, version)


def can_unshare_user() -> bool:
    """Tell whether a process without privileges may have a user namespace with a network of its own."""
    code = (
        "import ctypes, sys; "
        f"sys.exit(ctypes.CDLL(None).unshare({_CLONE_NEWUSER | _CLONE_NEWNET}) != 0)"
    )
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", code],
            capture_output=True,
            timeout=_PROBE_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def has_seccomp_filters() -> bool:
    """Tell whether system calls can be filtered."""
    actions = _read(_SECCOMP_ACTIONS)
    return actions is not None and "errno" in actions.split()


def free_bytes(folder: Path) -> int | None:
    """Give the free space where a folder lies or would lie; None where that cannot be told."""
    there = next((each for each in (folder, *folder.absolute().parents) if each.exists()), None)
    if there is None:
        return None
    try:
        return int(psutil.disk_usage(str(there)).free)
    except OSError:
        return None


def why_unwritable(folder: Path) -> str | None:
    """Say why no file can be put into a folder, which may have to be made first; None where one can.

    It is tried: permissions say yes to the administrator, who cannot write into /proc either.
    """
    there = next(each for each in (folder, *folder.resolve().parents) if each.exists())
    if not there.is_dir():
        return f"{there} is not a folder"
    try:
        tempfile.TemporaryDirectory(prefix=".flashinfer-bench-", dir=there).cleanup()
    except OSError as error:
        return f"{there} is not writable ({error.strerror})"
    return None


def _processors_used(process: psutil.Process) -> float:
    try:
        return process.cpu_percent(None) / 100
    except psutil.Error:  # it ended, or is none of our business
        return 0.0


def _read(file: Path) -> str | None:
    try:
        return file.read_text(encoding="utf-8").strip()
    except OSError as error:
        if error.errno not in {
            errno.ENOENT,
            errno.EACCES,
            errno.EPERM,
            errno.ENOTDIR,
            errno.EINVAL,
        }:
            raise
        return None
