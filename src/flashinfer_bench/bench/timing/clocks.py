"""How the time of prepared calls is taken; one class per way."""

from __future__ import annotations

import ctypes
import statistics
from typing import TYPE_CHECKING, Any

import torch

from flashinfer_bench.bench.timing.wall import WallClock, overhead_ns, spin_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.bench.timing.wall import Arguments, Call, Clock, LatencyKind


class CudaEvents:
    """CUDA events on the current stream; a spin kernel hides the launches, the L2 cache is evicted first.

    `latency_kind` is `call`: what a caller on a busy stream pays, from the first kernel's start to the last
    one's end, gaps between them included.
    """

    name = "cuda_events"
    version = "1"
    latency_kind: LatencyKind = "call"
    is_cold = True

    _SPIN_CYCLES_PER_CALL = 100_000  # about 50 µs at 2 GHz: longer than any launch
    _LARGEST_SPIN_CYCLES = 20_000_000

    def __init__(self, device: torch.device) -> None:
        self._device = device
        properties = torch.cuda.get_device_properties(device)
        # Twice the L2 cache, so that nothing of a sample's inputs survives the sweep.
        self._sweep = torch.empty(2 * properties.L2_cache_size, dtype=torch.uint8, device=device)
        self._runtime = _cuda_runtime()

    def time_ns(self, call: Call, calls: Sequence[Arguments]) -> tuple[int, list[object]]:
        """Time the calls between two events; return when the device is idle."""
        event: Any = torch.cuda.Event  # untyped in torch
        started, ended = event(enable_timing=True), event(enable_timing=True)
        if self._runtime is not None:
            self._runtime.cudaCtxResetPersistingL2Cache()
        self._sweep.zero_()
        torch.cuda.synchronize(self._device)
        spin = min(self._SPIN_CYCLES_PER_CALL * len(calls), self._LARGEST_SPIN_CYCLES)
        keep_busy: Any = torch.cuda._sleep  # torch's own way, untyped
        keep_busy(spin)
        started.record()
        results = [call(*arguments) for arguments in calls]
        ended.record()
        torch.cuda.synchronize(self._device)
        return round(started.elapsed_time(ended) * 1e6), results


def clock_for(device: torch.device) -> Clock:
    """Choose the default clock of a device."""
    return CudaEvents(device) if device.type == "cuda" else WallClock()


def calibrate(clock: Clock, device: torch.device) -> dict[str, float]:
    """Time an empty call, a copy of known bytes and, on a CPU, a spin of known length."""
    source = torch.ones(4 << 20, dtype=torch.float32, device=device)
    target = torch.empty_like(source)
    target.copy_(source)
    copy_ns = min(clock.time_ns(target.copy_, [(source,)])[0] for _ in range(5))
    found = {
        "empty_call_ns": overhead_ns(clock),
        "copy_gb_per_s": 2 * source.numel() * source.element_size() / max(1, copy_ns),
    }
    if device.type == "cpu":
        spin_ns = 200_000
        taken = statistics.median(clock.time_ns(spin_for, [(spin_ns,)])[0] for _ in range(5))
        found["spin_ratio"] = taken / spin_ns
    return found


def _cuda_runtime() -> ctypes.CDLL | None:
    """Find the CUDA runtime torch has loaded; without it persisting L2 lines cannot be reset."""
    for name in ("libcudart.so", "libcudart.so.13", "libcudart.so.12"):
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None
