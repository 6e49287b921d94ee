"""Anonymous memory that a judge and a candidate share: whoever could shrink it could crash its other reader."""

from __future__ import annotations

import fcntl
import os


def fixed_memory(name: str, size_bytes: int) -> int:
    """Make memory of a size that nobody can change; give its descriptor, which the caller closes."""
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, size_bytes)
    seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
    return descriptor
