"""The rights of an administrator, given up for good."""

from __future__ import annotations

import ctypes
import struct

_PR_CAPBSET_DROP = 24
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
_VERSION_3 = 0x20080522
_MOST_CAPABILITIES = 64
_OF_COUNTERS = (21, 38)  # CAP_SYS_ADMIN, CAP_PERFMON


def drop(*, keeps_counters: bool = False) -> None:
    """Give up every capability of this process and of what it starts; raises `OSError` if refused.

    With `keeps_counters`, all but those by which a driver lets a profiler read a device's counters.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    kept = sum(1 << number for number in _OF_COUNTERS) & _held(libc) if keeps_counters else 0
    for number in range(_MOST_CAPABILITIES):  # refused to those who have none to pass on
        if not kept >> number & 1:
            libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0)
    libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    header = struct.pack("=Ii", _VERSION_3, 0)
    words = [word for half in (kept & 0xFFFFFFFF, kept >> 32) for word in (half, half, 0)]
    if libc.capset(header, struct.pack("=6I", *words)) != 0:
        raise OSError(ctypes.get_errno(), "capset")


def _held(libc: ctypes.CDLL) -> int:
    """Tell which capabilities this process may use, one bit each."""
    header = struct.pack("=Ii", _VERSION_3, 0)
    data = ctypes.create_string_buffer(24)
    if libc.capget(header, data) != 0:
        return 0
    low, _, _, high, _, _ = struct.unpack("=6I", data.raw)
    return int(low) | int(high) << 32
