"""How the time of prepared calls is taken on a device; one class per way."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Any

import torch

from flashinfer_bench.bench.choices import clock_name, is_cold_on
from flashinfer_bench.bench.timing.device_work import DeviceSpin, Sweep, hide_launches, spin_call
from flashinfer_bench.bench.timing.hold import loaded_hold
from flashinfer_bench.bench.timing.wall import WallClock, nothing, overhead_ns

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from flashinfer_bench.bench.choices import CacheChoice, ClockChoice
    from flashinfer_bench.bench.timing.wall import Arguments, Call, Clock, LatencyKind

_now_ns = time.perf_counter_ns  # bound before any solution is loaded

_CALIBRATION_SPIN_NS = 200_000
_SPUN, _HELD = "3", "4"
"""Versions of `cuda_events`: caches are emptied before launches, or behind them."""
_EMPTIED_ELSEWHERE = "2"
"""Of `wall` with cold caches: they were emptied in the process that is timed, now in the judge's."""


class CudaEvents:
    """CUDA events on the current stream; launches are hidden behind a held card, or a spin kernel of constant length.

    `latency_kind` is `call`: what a caller on a busy stream pays, from the first kernel's start to the last
    one's end, gaps between them included.
    """

    name = "cuda_events"
    latency_kind: LatencyKind = "call"
    is_told_late = False
    host_ns: int | None = None
    is_hidden = True
    launches: int | None = None
    FIXED_ATTRIBUTES = ("_sweep", "_spin", "hold")

    def __init__(self, device: torch.device, *, is_cold: bool = True) -> None:
        self._device = device
        self._sweep = Sweep(device) if is_cold else None
        self._spin = DeviceSpin(device)
        self.hold = loaded_hold(device)
        self.version = _SPUN if self.hold is None else _HELD
        self.is_cold = is_cold

    def begin(self, host_ns: float | None = None) -> None:
        """Settle the spin by how long these calls keep the host."""
        self._spin.begin(host_ns, self.hold)

    def use_cache(self, *, is_cold: bool) -> None:
        """From now on evict caches before each sample, or do not."""
        self._sweep = Sweep(self._device) if is_cold else None
        self.is_cold = is_cold

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
        hide_launches(self.hold, self._spin, self._sweep, self._device)
        started.record()
        began_ns = _now_ns()
        results = [call(*arguments) for arguments in calls]
        self.host_ns = _now_ns() - began_ns
        self.is_hidden = not started.query()
        ended.record()
        torch.cuda.synchronize(self._device)
        return round(started.elapsed_time(ended) * 1e6), results


def clock_for(
    device: torch.device, clock: ClockChoice = "auto", cache: CacheChoice = "auto"
) -> Clock:
    """Open the clock that was chosen for a device; nothing stands in for one that cannot be had.

    `auto` is CUDA events and a cold cache on CUDA, the wall clock and a hot one on a CPU, whose caches somebody else
    empties. Raises `UsageError` for a clock that a device does not have, `DeviceError` for one that is not to be had
    here.
    """
    name, is_cold = clock_name(device.type, clock), is_cold_on(device.type, cache)
    if device.type != "cuda":
        wall = WallClock()
        wall.version = _EMPTIED_ELSEWHERE if is_cold else wall.version
        return wall
    if name == "wall":
        return WallClock(
            evict=Sweep(device) if is_cold else None,
            settle=lambda: torch.cuda.synchronize(device),
        )
    if name == "cupti":
        from flashinfer_bench.bench.timing.cupti import Cupti  # noqa: PLC0415  # an optional package

        return Cupti(device, is_cold=is_cold)
    return CudaEvents(device, is_cold=is_cold)


def version_without_hold(clock: Clock) -> str:
    """Say which version a clock is that hides launches behind a spin."""
    return _SPUN if isinstance(clock, CudaEvents) else clock.version


def let_go(clock: Clock) -> None:
    """Have launches hidden behind a spin, where the driver lets no card see memory of the host."""
    clock.hold, clock.version = None, version_without_hold(clock)


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
