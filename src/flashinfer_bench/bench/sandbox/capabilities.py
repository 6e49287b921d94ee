"""The rights of an administrator, given up for good."""

from __future__ import annotations

import ctypes
import struct

_PR_CAPBSET_DROP = 24
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
_VERSION_3 = 0x20080522
_MOST_CAPABILITIES = 64


def drop() -> None:
    """Give up every capability of this process and of what it starts; raises `OSError` if refused."""
    libc = ctypes.CDLL(None, use_errno=True)
    for number in range(_MOST_CAPABILITIES):  # refused to those who have none to pass on
        libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0)
    libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    header = struct.pack("=Ii", _VERSION_3, 0)
    if libc.capset(header, struct.pack("=6I", *[0] * 6)) != 0:
        raise OSError(ctypes.get_errno(), "capset")
