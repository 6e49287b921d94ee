"""What clocks put onto a GPU beside the calls they time: kernels that keep it busy, and that empty its caches."""

from __future__ import annotations

import contextlib
import ctypes
from typing import TYPE_CHECKING, Any

import torch

from flashinfer_bench.bench.timing.wall import spin_for
from flashinfer_bench.errors import DeviceError
from flashinfer_bench.tensors import cuda_driver

if TYPE_CHECKING:
    from collections.abc import Callable

    from flashinfer_bench.bench.timing.hold import Hold

_USUAL_SPIN_NS = 1_000_000
_SHORTEST_SPIN_NS = 250_000
_LONGEST_SPIN_NS = 10_000_000
_SPIN_MARGIN = 1.5
_DEFAULT_CLOCK_KHZ = 2_000_000
_SPIN_MARGIN_NS = 200_000
"""Longer than the calls keep the host: half as long again, and what a host is late now and then."""
_SHORTEST_HOLD_NS, _HOLD_MARGIN_NS = 100_000, 50_000
"""The same for a hold, to which the judge adds 0.15 ms."""
SPIN_PTX = """
.version 6.4
.target sm_70
.address_size 64
.visible .entry spin(.param .s32 cycles)
.maxntid 512, 1, 1
{
    .reg .pred  %p;
    .reg .s64   %wanted, %begin, %now;

    ld.param.s32  %wanted, [cycles];
    mov.u64       %begin, %clock64;
LOOK:
    mov.u64       %now, %clock64;
    sub.s64       %now, %now, %begin;
    setp.ge.s64   %p, %now, %wanted;
    @%p bra       DONE;
    nanosleep.u32 100;
    bra           LOOK;
DONE:
    ret;
}
"""
"""Written in the assembly of NVIDIA's virtual machine, for every card from Volta on: the driver has it ready in a
millisecond, where NVRTC takes 0.3 s in each process."""
_SPIN_BLOCK = 512


class DeviceSpin:
    """A kernel that keeps the device busy while launches queue up behind it.

    It fills every multiprocessor, so that nothing on another stream starts before it ends: what ran beside it
    would be hidden from the clock. A candidate's samples, and the control's beside them, have one length of it: then
    what a sample takes by an outside clock, less what the device's own clock says, is the same whatever the number of
    calls, and the slope of one is the slope of the other.
    """

    FIXED_ATTRIBUTES = ("_cycles_per_ns", "_kernel", "_launch", "_before")

    def __init__(self, device: torch.device) -> None:
        properties = torch.cuda.get_device_properties(device)
        self._cycles_per_ns = getattr(properties, "clock_rate", _DEFAULT_CLOCK_KHZ) / 1e6
        self.duration_ns = _USUAL_SPIN_NS
        per_processor = properties.max_threads_per_multi_processor // _SPIN_BLOCK
        blocks = properties.multi_processor_count * per_processor
        library = cuda_driver.library()
        self._kernel = _loaded_spin()
        self._launch: Any = None if library is None else library.cuLaunchKernel
        self._before = (blocks, 1, 1, _SPIN_BLOCK, 1, 1, 0)
        """Grid, block and shared memory of a launch."""

    def begin(self, host_ns: float | None, hold: Hold | None) -> None:
        """Settle the length by how long the calls of a sample keep the host, within bounds."""
        self.duration_ns = hiding_ns(host_ns, is_held=hold is not None and hold.is_open)

    def launch(self) -> None:
        """Put the kernel onto the current stream."""
        cycles = round(self.duration_ns * self._cycles_per_ns)
        if self._kernel is None:
            spin_on_device(cycles)
            return
        given, stream = ctypes.c_int(cycles), torch.cuda.current_stream().cuda_stream
        arguments = (ctypes.c_void_p * 1)(ctypes.addressof(given))
        kernel = ctypes.c_void_p(
            self._kernel
        )  # made anew: one that is kept could be changed in place
        code = self._launch(kernel, *self._before, ctypes.c_void_p(stream), arguments, None)
        if code:
            raise DeviceError(
                f"the kernel that keeps the device busy was refused: CUDA error {code}"
            )


def hiding_ns(host_ns: float | None, *, is_held: bool) -> int:
    """Say how long a card is kept busy for calls that keep the host for so long; 1 ms where that is not known.

    `is_held`: by a hold, which then waits for the judge's word.

    >>> [hiding_ns(host_ns, is_held=False) for host_ns in (None, 10_000.0, 400_000.0, 1e8)]
    [1000000, 250000, 800000, 10000000]
    >>> [hiding_ns(host_ns, is_held=True) for host_ns in (None, 10_000.0, 400_000.0, 1e8)]
    [1000000, 100000, 650000, 10000000]
    """
    if host_ns is None:
        return _USUAL_SPIN_NS
    if is_held:
        wanted_ns = max(_SPIN_MARGIN * host_ns + _HOLD_MARGIN_NS, _SHORTEST_HOLD_NS)
    else:
        wanted_ns = max(_SPIN_MARGIN * host_ns + _SPIN_MARGIN_NS, _SHORTEST_SPIN_NS)
    return round(min(wanted_ns, _LONGEST_SPIN_NS))


def most_hidden_calls(host_ns: float) -> int:
    """Say how many calls that keep the host for so long each the longest spin hides; none of 6.6 ms.

    >>> [most_hidden_calls(host_ns) for host_ns in (10_000.0, 1e6, 7e6)]
    [653, 6, 0]
    """
    return int((_LONGEST_SPIN_NS - _SPIN_MARGIN_NS) / (_SPIN_MARGIN * max(1.0, host_ns)))


class Sweep:
    """Overwrites a buffer twice as large as the L2 cache, and takes away lines that were made to persist."""

    FIXED_ATTRIBUTES = ("_buffer", "_runtime")

    def __init__(self, device: torch.device) -> None:
        size = 2 * torch.cuda.get_device_properties(device).L2_cache_size
        self._buffer = torch.empty(size, dtype=torch.uint8, device=device)
        self._runtime = _cuda_runtime()

    def __call__(self) -> None:
        """Evict; the caller waits for it."""
        self.prepared().zero_()

    def prepared(self) -> torch.Tensor:
        """Take away lines that were made to persist, and give what is to be overwritten."""
        if self._runtime is not None:
            self._runtime.cudaCtxResetPersistingL2Cache()
        return self._buffer


def hide_launches(
    hold: Hold | None, spin: DeviceSpin, sweep: Sweep | None, device: torch.device
) -> None:
    """Have the idle device empty its caches and wait, as long as the spin lasts; a hold waits for the judge, too."""
    if hold is not None and hold.is_open:
        swept = None if sweep is None else sweep.prepared()
        torch.cuda.synchronize(device)
        hold.launch(swept, spin.duration_ns)
        return
    if sweep is not None:
        sweep()
    torch.cuda.synchronize(device)
    spin.launch()


def spin_call(device: torch.device) -> Callable[[int], object]:
    """Return a function that keeps a device busy for so many nanoseconds, exactly so on a CPU."""
    if device.type != "cuda":
        return spin_for
    properties = torch.cuda.get_device_properties(device)
    cycles_per_ns = getattr(properties, "clock_rate", _DEFAULT_CLOCK_KHZ) / 1e6
    return lambda duration_ns: spin_on_device(round(duration_ns * cycles_per_ns))


def spin_on_device(cycles: int) -> None:
    """Keep the current CUDA stream busy for so many cycles of the multiprocessor's clock."""
    keep_busy: Any = torch.cuda._sleep  # torch's own way, untyped
    keep_busy(cycles)


def _loaded_spin() -> int | None:
    """Give the kernel to the driver, and return its handle; None where it takes none, as on cards before Volta."""
    torch.cuda.synchronize()  # before the first work on it a card may have no context
    with contextlib.suppress(DeviceError):
        return cuda_driver.loaded_kernel(SPIN_PTX.encode(), b"spin")
    return None


def _cuda_runtime() -> ctypes.CDLL | None:
    """Find the CUDA runtime torch has loaded; without it persisting L2 lines cannot be reset."""
    for name in ("libcudart.so.13", "libcudart.so.12", "libcudart.so"):
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None
