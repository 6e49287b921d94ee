"""A kernel that holds a GPU until another process says go on, then writes a part of the inputs anew and empties caches.

Calls are launched behind it, so that launching takes no time of the card. The seed of what is written comes with the
word to go on: who used inputs before that used others. It fills every multiprocessor, so that nothing on another stream
runs before it ends, and all of its blocks end together. It also holds for a least time by the GPU's own clock, because
whoever runs in its process can write what it waits for.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from flashinfer_bench.errors import DeviceError
from flashinfer_bench.tensors import cuda_driver, late_inputs
from flashinfer_bench.tensors.fixed_memory import fixed_memory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.tensors.planned import InputPlan

_PTX = Path(__file__).with_suffix(".ptx")
_BLOCK = 512
_PAGE = mmap.PAGESIZE
_MAPPED = 2  # CU_MEMHOSTREGISTER_DEVICEMAP of cuda.h
_SWEPT_AT_ONCE = 16
_PARAMETERS = 9
_WORDS = 3


class StartWord:
    """A ticket and a seed, in memory that this process and the GPU of another one see."""

    def __init__(self) -> None:
        self.descriptor = fixed_memory("start", _PAGE)
        weakref.finalize(self, os.close, self.descriptor)
        self._words = _words_of(mmap.mmap(self.descriptor, _PAGE))
        self._ticket = 0

    def say(self, seed: int) -> None:
        """Let what is held go on. Inputs follow from the seed; 0 leaves them as they are."""
        self._ticket += 1
        self._words[:] = (self._ticket, seed, self._ticket ^ seed)  # seen in any order


class Hold:
    """The kernel, in the process whose calls it holds. Raises `DeviceError` where the driver refuses it."""

    FIXED_ATTRIBUTES = ("_kernel", "_launch", "_blocks", "_shared", "_words", "_address")

    def __init__(self, device: torch.device) -> None:
        properties = torch.cuda.get_device_properties(device)
        per_processor = properties.max_threads_per_multi_processor // _BLOCK
        self._blocks = properties.multi_processor_count * per_processor
        self._shared = torch.zeros(4, dtype=torch.int64, device=device)  # the card has a context
        self._kernel = cuda_driver.loaded_kernel(_PTX.read_bytes(), b"hold")
        library: Any = cuda_driver.library()
        self._launch = library.cuLaunchKernel
        self._device = device
        self._words: Any = None
        self._address = 0
        self._launches = self._last_ticket = 0
        self._places: torch.Tensor | None = None

    @property
    def is_open(self) -> bool:
        """Whether there is somebody who says go on."""
        return self._words is not None

    def open(self, descriptor: int | None) -> None:
        """Listen to the word in this memory, or to nobody. Raises `DeviceError` where the driver refuses it."""
        self._words = None
        if descriptor is None:
            return
        memory = mmap.mmap(descriptor, _PAGE)
        words = _words_of(memory)
        begin = ctypes.addressof(words)
        host = ctypes.c_void_p(begin)
        cuda_driver.call("cuMemHostRegister_v2", host, ctypes.c_size_t(_PAGE), _MAPPED)
        weakref.finalize(words, _forget, begin).atexit = False
        address = ctypes.c_uint64()
        cuda_driver.call("cuMemHostGetDevicePointer_v2", ctypes.byref(address), host, 0)
        self._words, self._address = words, address.value

    def get_ready(self, places: torch.Tensor | None) -> None:
        """Take what was said so far for old, and these places for those of the next sample."""
        self._last_ticket = int(self._words[0])
        self._places = places

    def launch(self, sweep: torch.Tensor | None, least_ns: int = 0) -> None:
        """Hold the current stream, for so long at least; then change inputs, and overwrite `sweep` with zeros."""
        given = (ctypes.c_uint64 * _PARAMETERS)(
            least_ns,
            self._address,
            self._last_ticket,
            self._shared.data_ptr(),
            self._launches + 1,
            0 if self._places is None else self._places.data_ptr(),
            0 if self._places is None else len(self._places),
            0 if sweep is None else sweep.data_ptr(),
            0 if sweep is None else sweep.nbytes // _SWEPT_AT_ONCE,
        )
        begin = ctypes.addressof(given)
        arguments = (ctypes.c_void_p * _PARAMETERS)(*range(begin, begin + 8 * _PARAMETERS, 8))
        kernel = ctypes.c_void_p(self._kernel)  # made anew: one that is kept could be changed
        stream = ctypes.c_void_p(torch.cuda.current_stream(self._device).cuda_stream)
        grid = (self._blocks, 1, 1, _BLOCK, 1, 1, 0)
        code = self._launch(kernel, *grid, stream, arguments, None)
        if code:
            raise DeviceError(f"the kernel that holds calls was refused: CUDA error {code}")
        self._launches += 1  # the kernel counts on each of them


class LateRewriter:
    """Writes inputs anew as a hold does, in the process that checks."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._word = StartWord()
        self._hold = Hold(device)
        self._hold.open(self._word.descriptor)

    def __call__(
        self, plans: Sequence[InputPlan], sets: Sequence[Sequence[Any]], seed: int
    ) -> None:
        """Change inputs in place, and return when that is done."""
        places = place_table(plans, sets, self._device)
        if places is None:
            return
        self._hold.get_ready(places)
        self._word.say(seed)
        self._hold.launch(None)
        torch.cuda.synchronize(self._device)


def place_table(
    plans: Sequence[InputPlan], sets: Sequence[Sequence[Any]], device: torch.device
) -> torch.Tensor | None:
    """Write what may change as the kernel reads it: int64 `[rows, 6]` on the device; None where nothing may."""
    found = late_inputs.places(plans, sets[0])
    rows = [
        row
        for arguments in sets
        for place in found
        for row in place.rows(arguments[place.position].data_ptr())
    ]
    return torch.tensor(rows, dtype=torch.int64).to(device) if rows else None


def late_rewriter(device: torch.device) -> LateRewriter | None:
    """Give what writes inputs anew on a device; None on a CPU, or where its driver refuses."""
    if device.type != "cuda" or not torch.cuda.is_available():
        return None
    with contextlib.suppress(DeviceError, AttributeError, OSError, RuntimeError):
        return LateRewriter(device)
    return None


def loaded_hold(device: torch.device) -> Hold | None:
    """Load the kernel; None where the driver refuses it."""
    with contextlib.suppress(DeviceError, AttributeError, OSError):
        return Hold(device)
    return None


def _words_of(memory: mmap.mmap) -> Any:
    return (ctypes.c_uint64 * _WORDS).from_buffer(memory)


def _forget(address: int) -> None:
    with contextlib.suppress(DeviceError):
        cuda_driver.call("cuMemHostUnregister", ctypes.c_void_p(address))
