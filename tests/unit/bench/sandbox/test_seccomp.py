"""What the filter refuses, tried in a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

from flashinfer_bench.bench.sandbox import seccomp

MAPS_TWICE = """
import ctypes, errno, mmap, os
from flashinfer_bench.bench.sandbox import seccomp

libc = ctypes.CDLL(None, use_errno=True)
libc.mremap.restype = libc.mmap.restype = ctypes.c_void_p
SHARED, MAY_MOVE = 1, 1
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
libc.mremap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int]
pages = libc.mmap(None, 8192, 3, SHARED | mmap.MAP_ANONYMOUS, -1, 0)


def again(old_size, new_size):
    found = libc.mremap(pages, old_size, new_size, MAY_MOVE)
    return "refused" if found == ctypes.c_void_p(-1).value else "mapped"


before = again(0, 8192)
libc.prctl(38, 1, 0, 0, 0)  # no new privileges
seccomp.install(pid=os.getpid(), restricts_signals=False, restricts_truncate=False)
print(before, again(0, 8192), again(8192, 4096))
"""


@pytest.mark.skipif(not seccomp.is_known_machine(), reason="no filters for this machine")
def test_the_same_pages_are_not_mapped_a_second_time() -> None:
    said = subprocess.run(
        [sys.executable, "-c", MAPS_TWICE], capture_output=True, text=True, check=True
    )

    assert said.stdout.split() == ["mapped", "refused", "mapped"]
