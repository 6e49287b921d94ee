"""How the time of prepared calls is taken on a device; one class per way."""

from __future__ import annotations

import ctypes
import statistics
import time
from typing import TYPE_CHECKING, Any

import torch

from flashinfer_bench.bench.choices import clock_name, is_cold_on
from flashinfer_bench.bench.timing.wall import WallClock, nothing, overhead_ns, spin_for
from flashinfer_bench.tensors.machine import last_level_cache_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from flashinfer_bench.bench.choices import CacheChoice, ClockChoice
    from flashinfer_bench.bench.timing.wall import Arguments, Call, Clock, LatencyKind

_now_ns = time.perf_counter_ns  # bound before any solution is loaded

_USUAL_SPIN_NS = 1_000_000
_SHORTEST_SPIN_NS = 250_000
_LONGEST_SPIN_NS = 10_000_000
_SPIN_MARGIN = 1.5
_DEFAULT_CLOCK_KHZ = 2_000_000
_CALIBRATION_SPIN_NS = 200_000


_SPIN_SOURCE = """
extern "C" __global__ void __launch_bounds__(512) spin(int cycles) {
    long long begin = clock64();
    while (clock64() - begin < cycles) __nanosleep(100);
}
"""
_SPIN_BLOCK = 512


class Spin:
    """A kernel that keeps the device busy while launches queue up behind it.

    It fills every multiprocessor, so that nothing on another stream starts before it ends: what ran beside it
    would be hidden from the clock. Its length is constant within a session: then what a sample takes by an
    outside clock, less what the device's own clock says, is the same whatever the number of calls, and the slope
    of one is the slope of the other.
    """

    def __init__(self, device: torch.device) -> None:
        properties = torch.cuda.get_device_properties(device)
        self._cycles_per_ns = getattr(properties, "clock_rate", _DEFAULT_CLOCK_KHZ) / 1e6
        self.duration_ns = _USUAL_SPIN_NS
        per_processor = properties.max_threads_per_multi_processor // _SPIN_BLOCK
        self._grid = (properties.multi_processor_count * per_processor, 1, 1)
        self._kernel = _compiled_spin()

    def begin(self, host_ns: float | None) -> None:
        """Settle the length: half as long again as the calls of a sample keep the host, within bounds."""
        if host_ns is None:
            self.duration_ns = _USUAL_SPIN_NS
        else:
            wanted_ns = max(_SPIN_MARGIN * host_ns, _SHORTEST_SPIN_NS)
            self.duration_ns = round(min(wanted_ns, _LONGEST_SPIN_NS))

    def launch(self) -> None:
        """Put the kernel onto the current stream."""
        cycles = round(self.duration_ns * self._cycles_per_ns)
        if self._kernel is None:
            spin_on_device(cycles)
        else:
            self._kernel(grid=self._grid, block=(_SPIN_BLOCK, 1, 1), args=[cycles])


class Sweep:
    """Overwrites a buffer twice as large as the L2 cache, and takes away lines that were made to persist."""

    def __init__(self, device: torch.device) -> None:
        size = 2 * torch.cuda.get_device_properties(device).L2_cache_size
        self._buffer = torch.empty(size, dtype=torch.uint8, device=device)
        self._runtime = _cuda_runtime()

    def __call__(self) -> None:
        """Evict; the caller waits for it."""
        if self._runtime is not None:
            self._runtime.cudaCtxResetPersistingL2Cache()
        self._buffer.zero_()


class CudaEvents:
    """CUDA events on the current stream; launches are hidden behind a spin kernel of constant length.

    `latency_kind` is `call`: what a caller on a busy stream pays, from the first kernel's start to the last
    one's end, gaps between them included.
    """

    name = "cuda_events"
    version = "3"
    latency_kind: LatencyKind = "call"
    is_told_late = False
    host_ns: int | None = None

    def __init__(self, device: torch.device, *, is_cold: bool = True) -> None:
        self._device = device
        self._sweep = Sweep(device) if is_cold else None
        self._spin = Spin(device)
        self.is_cold = is_cold

    def begin(self, host_ns: float | None = None) -> None:
        """Settle the spin by how long these calls keep the host."""
        self._spin.begin(host_ns)

    def get_ready(self) -> None:
        """Do nothing: nothing is left behind."""

    def time_ns(
        self,
        call: Call,
        calls: Sequence[Arguments],
        done: Callable[[], object] = nothing,  # noqa: ARG002  # it is not late
    ) -> tuple[int, list[object]]:
        """Time the calls between two events; return when the device is idle."""
        event: Any = torch.cuda.Event  # untyped in torch
        started, ended = event(enable_timing=True), event(enable_timing=True)
        if self._sweep is not None:
            self._sweep()
        torch.cuda.synchronize(self._device)
        self._spin.launch()
        started.record()
        began_ns = _now_ns()
        results = [call(*arguments) for arguments in calls]
        host_ns = _now_ns() - began_ns
        is_hidden = not started.query()
        ended.record()
        torch.cuda.synchronize(self._device)
        self.host_ns = host_ns if is_hidden else None
        return round(started.elapsed_time(ended) * 1e6), results


def clock_for(
    device: torch.device, clock: ClockChoice = "auto", cache: CacheChoice = "auto"
) -> Clock:
    """Open the clock that was chosen for a device; nothing stands in for one that cannot be had.

    `auto` is CUDA events and a cold cache on CUDA, the wall clock and a hot one on a CPU. Raises `UsageError`
    for a clock that a device does not have, `DeviceError` for one that is not to be had here.
    """
    name, is_cold = clock_name(device.type, clock), is_cold_on(device.type, cache)
    if device.type != "cuda":
        return WallClock(evict=_evictor() if is_cold else None)
    if name == "wall":
        return WallClock(
            evict=Sweep(device) if is_cold else None,
            settle=lambda: torch.cuda.synchronize(device),
        )
    if name == "cupti":
        from flashinfer_bench.bench.timing.cupti import Cupti  # noqa: PLC0415  # an optional package

        return Cupti(device, is_cold=is_cold)
    return CudaEvents(device, is_cold=is_cold)


def calibrate(clock: Clock, device: torch.device) -> dict[str, float]:
    """Time an empty call, a copy of known bytes and a spin of known length.

    `spin_ratio` is how much longer three spins take than two, over how much longer two take than one: what
    a sample costs besides falls out, and so does how fast a GPU's processors tick at the moment.
    """
    source = torch.ones(4 << 20, dtype=torch.float32, device=device)
    target = torch.empty_like(source)
    target.copy_(source)
    empty_ns = overhead_ns(clock)
    copy_ns = min(clock.time_ns(target.copy_, [(source,)])[0] for _ in range(5))
    return {
        "empty_call_ns": empty_ns,
        "copy_gb_per_s": 2 * source.numel() * source.element_size() / max(1, copy_ns),
        "spin_ratio": _spin_ratio(clock, device),
    }


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


def _compiled_spin() -> Any:
    """Compile the kernel with NVRTC, as torch brings it; None with a torch that cannot (before 2.9)."""
    compile_kernel: Any = getattr(torch.cuda, "_compile_kernel", None)
    return None if compile_kernel is None else compile_kernel(_SPIN_SOURCE, "spin")


def _spin_ratio(clock: Clock, device: torch.device) -> float:
    spin = spin_call(device)
    spin(_CALIBRATION_SPIN_NS)
    one_ns, two_ns, three_ns = (
        statistics.median(
            clock.time_ns(spin, [(times * _CALIBRATION_SPIN_NS,)])[0] for _ in range(5)
        )
        for times in (1, 2, 3)
    )
    return (three_ns - two_ns) / max(1, two_ns - one_ns)


def _evictor() -> Callable[[], object]:
    """Read with all threads, so that each core's own caches are emptied too."""
    buffer = torch.ones(2 * last_level_cache_bytes() // 8, dtype=torch.int64)
    return buffer.sum


def _cuda_runtime() -> ctypes.CDLL | None:
    """Find the CUDA runtime torch has loaded; without it persisting L2 lines cannot be reset."""
    for name in ("libcudart.so.13", "libcudart.so.12", "libcudart.so"):
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None
