"""NVIDIA's driver library, for what torch does not offer: memory to hand over, a kernel given as text."""

from __future__ import annotations

import contextlib
import ctypes
import functools
from typing import Any

from flashinfer_bench.errors import DeviceError


@functools.cache
def library() -> ctypes.CDLL | None:
    """Load it; None where there is none."""
    with contextlib.suppress(OSError):
        return ctypes.CDLL("libcuda.so.1")
    return None


def call(name: str, *arguments: Any) -> None:
    """Call a function of the driver. Raises `DeviceError` where it is missing or refuses."""
    loaded = library()
    if loaded is None:
        raise DeviceError("there is no NVIDIA driver (libcuda.so.1)")
    code = getattr(loaded, name)(*arguments)
    if code:
        raise DeviceError(f"{name} failed with CUDA error {code}")


def loaded_kernel(ptx: bytes, name: bytes) -> int:
    """Give a kernel written as PTX to the driver, and return its handle; the caller has seen to a context.

    Raises `DeviceError` where the driver takes none, as on cards before Volta.
    """
    module, kernel = ctypes.c_void_p(), ctypes.c_void_p()
    call("cuModuleLoadData", ctypes.byref(module), ptx)
    call("cuModuleGetFunction", ctypes.byref(kernel), module, name)
    return kernel.value or 0
