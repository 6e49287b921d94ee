"""Kernel activity time from CUPTI, through the optional package cupti-python."""

from __future__ import annotations

import importlib
import importlib.metadata
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from flashinfer_bench.bench.timing.device_work import (
    DeviceSpin,
    Sweep,
    hide_launches,
    spin_on_device,
)
from flashinfer_bench.bench.timing.hold import loaded_hold
from flashinfer_bench.bench.timing.wall import nothing
from flashinfer_bench.errors import DeviceError, MissingPackageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from flashinfer_bench.bench.timing.wall import Arguments, Call, LatencyKind

_now_ns = time.perf_counter_ns  # bound before any solution is loaded

_BUFFER_BYTES = 1 << 20  # several thousand records
_OWN_KERNELS = 2  # and a third one that sweeps the cache, where no hold does
_FLUSH_ALL = 1  # CUPTI_ACTIVITY_FLAG_FLUSH_FORCED
_KINDS = ("CONCURRENT_KERNEL", "MEMCPY", "MEMSET")


class ClockHeldError(DeviceError):
    """Another profiler in this process holds CUPTI, which serves one at a time."""

    def __init__(self, seen: str) -> None:
        super().__init__(
            f"another profiler in this process holds CUPTI ({seen}): stop it, or time with --clock events"
        )


@dataclass(frozen=True, slots=True)
class Activity:
    """One piece of work on the device, in CUPTI's nanoseconds; `launch` orders them by when they were asked for."""

    launch: int
    started_ns: int
    ended_ns: int


class Cupti:
    """What the device itself recorded: from the start of the first piece of work to the end of the last.

    Launches are hidden behind a spin kernel as with CUDA events; its own record shows that CUPTI listens to
    us. A first kernel in `get_ready` makes CUPTI fetch a buffer, which takes longer than the spin. `latency_kind`
    is `device`.
    """

    name = "cupti"
    latency_kind: LatencyKind = "device"
    is_told_late = True
    host_ns: int | None = None
    is_hidden = True
    launches: int | None = None

    def __init__(self, device: torch.device, *, is_cold: bool = True) -> None:
        self._cupti = _load()
        self.version = importlib.metadata.version("cupti-python")
        self._device = device
        self.is_cold = is_cold
        self._activities: list[Activity] = []
        self._is_ready = False
        torch.cuda.synchronize(device)  # CUDA must be up before CUPTI can listen
        self._sweep = Sweep(device) if is_cold else None
        self._spin = DeviceSpin(device)
        self.hold = loaded_hold(device)
        self._subscribe()

    def begin(self, host_ns: float | None = None) -> None:
        """Settle the spin by how long these calls keep the host."""
        self._spin.begin(host_ns, self.hold)

    def use_cache(self, *, is_cold: bool) -> None:
        """From now on evict caches before each sample, or do not."""
        self._sweep = Sweep(self._device) if is_cold else None
        self.is_cold = is_cold
        self._is_ready = False  # making a sweep leaves records

    def get_ready(self) -> None:
        """Take in the records of all kernels so far, those that made the inputs of a sample, and forget them.

        The first kernel after that keeps the host, the longer the more graphs there are: it is not the sample's.
        """
        torch.cuda.synchronize(self._device)
        self._cupti.activity_flush_all(_FLUSH_ALL)
        self._activities.clear()
        spin_on_device(0)
        torch.cuda.synchronize(self._device)
        self._is_ready = True

    def time_ns(
        self, call: Call, calls: Sequence[Arguments], done: Callable[[], object] = nothing
    ) -> tuple[int, list[object]]:
        """Time the calls by their own records; 0 when nothing ran on the device."""
        if not self._is_ready:
            self.get_ready()
        self._is_ready = False
        behind: Any = torch.cuda.Event()  # type: ignore[no-untyped-call]  # untyped in torch
        hold = self.hold
        hide_launches(hold, self._spin, self._sweep, self._device)
        behind.record()
        began_ns = _now_ns()
        results = [call(*arguments) for arguments in calls]
        self.host_ns = _now_ns() - began_ns
        self.is_hidden = not behind.query()
        torch.cuda.synchronize(self._device)
        done()
        self._cupti.activity_flush_all(_FLUSH_ALL)
        own = _OWN_KERNELS + (self.is_cold and not (hold is not None and hold.is_open))
        self.launches = len(after_own(self._activities, own=own))
        return span_ns(self._activities, own=own), results

    def close(self) -> None:
        """Stop listening, so that another profiler may."""
        for kind in _KINDS:
            self._cupti.activity_disable(getattr(self._cupti.ActivityKind, kind))
        self._cupti.unsubscribe(self._subscriber)

    def _subscribe(self) -> None:
        """Take the one place of a subscriber, for as long as this clock is open."""
        try:
            self._subscriber = self._cupti.subscribe(_ignore, None)
            self._cupti.activity_register_callbacks(_buffer, self._keep)
            for kind in _KINDS:
                self._cupti.activity_enable(getattr(self._cupti.ActivityKind, kind))
        except self._cupti.cuptiError as error:
            raise ClockHeldError(str(error)) from error

    def _keep(self, records: list[Any]) -> None:
        self._activities += [
            Activity(record.correlation_id, record.start, record.end) for record in records
        ]


def after_own(activities: Sequence[Activity], *, own: int) -> list[Activity]:
    """Give all but our `own` kernels, which were launched first; a graph's are all of one launch.

    Raises `ClockHeldError` when not even those were recorded.

    >>> found = [Activity(1, 0, 2), Activity(2, 3, 500), Activity(3, 510, 530), Activity(3, 540, 550)]
    >>> len(after_own(found, own=2))
    2
    """
    launches = sorted({each.launch for each in activities})
    if len(launches) < own:
        raise ClockHeldError("not even our own kernels were recorded")
    return [each for each in activities if each.launch > launches[own - 1]]


def span_ns(activities: Sequence[Activity], *, own: int) -> int:
    """Return the time from the first start to the last end of all but our `own` kernels; 0 where there is nothing.

    >>> found = [Activity(1, 0, 2), Activity(2, 3, 500), Activity(3, 510, 530), Activity(4, 540, 550)]
    >>> span_ns(found, own=2)
    40
    """
    timed = after_own(activities, own=own)
    if not timed:
        return 0
    return max(each.ended_ns for each in timed) - min(each.started_ns for each in timed)


def _ignore(*_: object) -> None:
    """Hear nothing: only records of activity are asked for."""


def _buffer() -> tuple[int, int]:
    """Offer CUPTI a buffer; 0: as many records as fit."""
    return _BUFFER_BYTES, 0


def _load() -> Any:
    try:
        return importlib.import_module("cupti.cupti")
    except ImportError as error:
        raise MissingPackageError(
            "cupti-python", extra="cuda", needed_for="the clock 'cupti'"
        ) from error
