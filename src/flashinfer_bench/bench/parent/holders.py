"""Who holds a device's lock: a note beside the lock file, for those who wait."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import msgspec

from flashinfer_bench.data import settings

_LONGEST_COMMAND = 200
_MOST_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that holds a device, since when, and what it is."""

    pid: int
    since_s: float
    """Seconds since the epoch at which it took the device first."""
    command: str


def ourselves(since_s: float) -> Holder:
    """Describe this process."""
    command = shlex.join([os.path.basename(sys.argv[0]), *sys.argv[1:]])  # noqa: PTH119  # it may be ""
    return Holder(os.getpid(), since_s, command[:_LONGEST_COMMAND])


def write_holder(lock_name: str, holder: Holder) -> None:
    """Leave a note for those who wait; whoever holds the lock writes it over.

    It is never removed: it is asked for only while the lock is held. Where it cannot be written, it is not.
    """
    flags = os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with contextlib.suppress(OSError):
        try:  # without O_CREAT: the kernel refuses that for a file of another user in such a folder
            descriptor = os.open(_file(lock_name), flags)
        except FileNotFoundError:
            descriptor = os.open(_file(lock_name), flags | os.O_CREAT | os.O_EXCL, 0o666)
            os.fchmod(descriptor, 0o666)
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode(holder))


def read_holder(lock_name: str) -> Holder | None:
    """Read the note; None where there is none that can be read, or whose process is gone."""
    try:
        with _file(lock_name).open("rb") as file:
            holder = msgspec.json.decode(file.read(_MOST_BYTES), type=Holder)
    except (OSError, msgspec.DecodeError):
        return None
    return holder if Path(f"/proc/{holder.pid}").exists() else None


def holder_text(holder: Holder | None, now_s: float | None = None) -> str:
    """Say who it is, in a clause; nothing where it is not known.

    >>> holder_text(Holder(17, 1000.0, "flashinfer-bench run --local data"), now_s=1065.0)
    ' (process 17, for 65 s: flashinfer-bench run --local data)'
    """
    if holder is None:
        return ""
    passed_s = max(0.0, (time.time() if now_s is None else now_s) - holder.since_s)
    return f" (process {holder.pid}, for {passed_s:.0f} s: {holder.command})"


def _file(lock_name: str) -> Path:
    return settings.lock_folder() / f"{lock_name}.holder"
