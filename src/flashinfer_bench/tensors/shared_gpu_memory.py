"""Memory of a GPU that two processes map, handed over as a descriptor.

By CUDA's virtual memory management: physical memory is made and exported in one process, imported and mapped in others
(CUDA driver API, "Virtual Memory Management"). Its size is fixed, and it lives as long as a descriptor or a mapping.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import weakref

import torch

from flashinfer_bench.errors import DeviceError
from flashinfer_bench.tensors import cuda_driver

_DEVICE_MEMORY, _OF_A_DEVICE, _AS_DESCRIPTOR, _READ_AND_WRITE = 1, 1, 1, 3
"""CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_LOCATION_TYPE_DEVICE, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR and
CU_MEM_ACCESS_FLAGS_PROT_READWRITE of cuda.h."""


class _Location(ctypes.Structure):
    """`CUmemLocation` of cuda.h."""

    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


class _Properties(ctypes.Structure):
    """`CUmemAllocationProp` of cuda.h."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location", _Location),
        ("windows_metadata", ctypes.c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    )


class _Access(ctypes.Structure):
    """`CUmemAccessDesc` of cuda.h."""

    _fields_ = (("location", _Location), ("flags", ctypes.c_int))


class _Bytes:
    """Bytes of a GPU, as other libraries may take them over (the CUDA array interface, version 3)."""

    def __init__(self, address: int, count: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (count,),
            "typestr": "|u1",
            "data": (address, False),
            "version": 3,
        }


def can_be_shared(device: torch.device) -> bool:
    """Tell whether memory of a device can be handed over: not every driver, nor every virtual GPU, does that."""
    return (
        device.type == "cuda"
        and cuda_driver.library() is not None
        and _can_share(device.index or 0)
    )


@functools.cache
def _can_share(index: int) -> bool:
    """Try it: a process may take over what it has made itself."""
    device, owner = torch.device("cuda", index), _Owner()
    try:
        descriptor = create(1, device)
        try:
            mapped(owner, descriptor, 1, device).fill_(1)
            torch.cuda.synchronize(device)
        finally:
            os.close(descriptor)
    except (DeviceError, AttributeError, RuntimeError):  # refused, or too old to have it
        return False
    return True


class _Owner:
    """Whoever a mapping ends with."""


def create(size_bytes: int, device: torch.device) -> int:
    """Make memory of a GPU, and return its descriptor. Raises `DeviceError` where the driver refuses."""
    properties = _properties(device)
    handle, descriptor = ctypes.c_uint64(), ctypes.c_int(-1)
    cuda_driver.call(
        "cuMemCreate",
        ctypes.byref(handle),
        ctypes.c_size_t(_whole(size_bytes, properties)),
        ctypes.byref(properties),
        ctypes.c_uint64(0),
    )
    try:
        cuda_driver.call(
            "cuMemExportToShareableHandle",
            ctypes.byref(descriptor),
            handle,
            ctypes.c_int(_AS_DESCRIPTOR),
            ctypes.c_uint64(0),
        )
    finally:
        cuda_driver.call("cuMemRelease", handle)  # the descriptor keeps it
    os.set_inheritable(descriptor.value, False)
    return descriptor.value


def mapped(owner: object, descriptor: int, size_bytes: int, device: torch.device) -> torch.Tensor:
    """Map memory that `create` made, as bytes; the mapping ends with its owner.

    Nothing may be under way on it by then. Raises `DeviceError` where the driver refuses.
    """
    properties = _properties(device)
    size = ctypes.c_size_t(_whole(size_bytes, properties))
    handle, address = ctypes.c_uint64(), ctypes.c_uint64()
    zero = ctypes.c_uint64(0)
    cuda_driver.call(
        "cuMemImportFromShareableHandle",
        ctypes.byref(handle),
        ctypes.c_void_p(descriptor),
        ctypes.c_int(_AS_DESCRIPTOR),
    )
    try:
        cuda_driver.call(
            "cuMemAddressReserve", ctypes.byref(address), size, ctypes.c_size_t(0), zero, zero
        )
        cuda_driver.call("cuMemMap", address, size, ctypes.c_size_t(0), handle, zero)
    finally:
        cuda_driver.call("cuMemRelease", handle)  # the mapping keeps it
    weakref.finalize(owner, _unmap, address.value, size.value).atexit = False
    access = _Access(properties.location, _READ_AND_WRITE)
    cuda_driver.call("cuMemSetAccess", address, size, ctypes.byref(access), ctypes.c_size_t(1))
    return torch.as_tensor(_Bytes(address.value, size_bytes), device=device)


def _unmap(address: int, size: int) -> None:
    with contextlib.suppress(DeviceError):
        cuda_driver.call("cuMemUnmap", ctypes.c_uint64(address), ctypes.c_size_t(size))
        cuda_driver.call("cuMemAddressFree", ctypes.c_uint64(address), ctypes.c_size_t(size))


def _properties(device: torch.device) -> _Properties:
    return _Properties(
        type=_DEVICE_MEMORY,
        handle_types=_AS_DESCRIPTOR,
        location=_Location(_OF_A_DEVICE, device.index or 0),
    )


def _whole(size_bytes: int, properties: _Properties) -> int:
    """Round up to what the driver gives at a time."""
    step = ctypes.c_size_t()
    cuda_driver.call(
        "cuMemGetAllocationGranularity",
        ctypes.byref(step),
        ctypes.byref(properties),
        ctypes.c_int(0),
    )
    return -(-size_bytes // step.value) * step.value
