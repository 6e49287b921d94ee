"""What a machine was like while something was timed: throttling, heat, power, other load."""

from __future__ import annotations

import collections
import importlib
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

THROTTLED_SHARE = 0.05
"""Throttled for a larger share of the time, and what was timed does not count."""
STOLEN_SHARE = 0.05
FOREIGN_SHARE = 0.25
WAITING_SHARE = 0.10
FOREIGN = "other programs computed"

_COMPETING_SHARE = 0.10
_FEWEST_TICKS = 3.0
"""Over a whole job fewer hundredths of a second say nothing: each processor's are counted in whole ones."""
_SHORTEST_COUNTED_S = 0.2  # the kernel counts whole hundredths of a second, on each processor
_PROC = Path("/proc")
_PROCESSORS = Path("/sys/devices/system/cpu")


class Observer(Protocol):
    """Looks at a machine before and after something is timed."""

    def before(self) -> None:
        """Take the state things start from."""
        ...

    def after(self) -> str | None:
        """Say what disturbed what was timed since `before`, if anything did."""
        ...

    def has_company(self) -> bool:
        """Tell whether others computed on the machine since the first `before`, however short that is."""
        ...

    def gauges(self) -> Mapping[str, float]:
        """Read what is worth recording whether it disturbs or not, such as a temperature."""
        ...


@dataclass(slots=True)
class Conditions:
    """What an observer saw over all blocks of a job; says which blocks are repeated.

    A machine that is always disturbed is not waited for: `repeats_left` blocks are given another chance.
    """

    observer: Observer
    repeats_left: int
    discarded: int = 0
    reasons: collections.Counter[str] = field(default_factory=collections.Counter)
    """How many of the blocks that count were disturbed, and by what."""
    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Lowest and highest reading of each gauge."""

    @property
    def is_noisy(self) -> bool:
        """Tell whether any block was disturbed, or others computed meanwhile: blocks can be too short to tell."""
        return self.discarded > 0 or bool(self.reasons) or self.observer.has_company()

    def disturbed(self, blocks: int) -> dict[str, int]:
        """Say what disturbed how many of the blocks that count; short ones are looked at together at the end."""
        if not self.reasons and not self.discarded and self.observer.has_company():
            return {FOREIGN: blocks}
        return dict(self.reasons)

    def before_block(self) -> None:
        """Look before a block is timed."""
        self.observer.before()

    def must_repeat(self) -> bool:
        """Look after a block; tell whether it does not count and is to be timed again."""
        disturbed_by = self.observer.after()
        for name, value in self.observer.gauges().items():
            low, high = self.ranges.get(name, (value, value))
            self.ranges[name] = min(low, value), max(high, value)
        if disturbed_by is None:
            return False
        if self.repeats_left > 0:
            self.repeats_left -= 1
            self.discarded += 1
            return True
        self.reasons[disturbed_by] += 1
        return False


class Undisturbed:
    """Where nothing can be seen: no block is disturbed."""

    def before(self) -> None:
        """Do nothing."""

    def after(self) -> str | None:
        """See nothing."""
        return None

    def has_company(self) -> bool:
        """See nobody."""
        return False

    def gauges(self) -> Mapping[str, float]:
        """Read nothing."""
        return {}


class GpuConditions:
    """A GPU as NVML sees it, through the optional package nvidia-ml-py."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml = nvml
        self._handle = handle
        self._reasons = {
            "hardware slowdown": nvml.nvmlClocksEventReasonHwSlowdown,
            "heat": nvml.nvmlClocksEventReasonSwThermalSlowdown
            | nvml.nvmlClocksEventReasonHwThermalSlowdown,
            "power brake": nvml.nvmlClocksEventReasonHwPowerBrakeSlowdown,
        }
        self._policies = {
            "the power limit": nvml.NVML_PERF_POLICY_POWER,
            "heat": nvml.NVML_PERF_POLICY_THERMAL,
        }
        self._started_s = 0.0
        self._throttled_ns: dict[str, int] = {}

    def before(self) -> None:
        """Read how long it was throttled so far."""
        self._throttled_ns = self._read_throttled_ns()
        self._started_s = time.monotonic()

    def after(self) -> str | None:
        """Name what throttled it: counted over the block, or in force at its end."""
        elapsed_ns = (time.monotonic() - self._started_s) * 1e9
        for cause, now_ns in self._read_throttled_ns().items():
            if now_ns - self._throttled_ns.get(cause, now_ns) > THROTTLED_SHARE * elapsed_ns:
                return f"throttled by {cause}"
        in_force = self._ask("nvmlDeviceGetCurrentClocksEventReasons") or 0
        return next(
            (f"throttled by {cause}" for cause, bits in self._reasons.items() if in_force & bits),
            None,
        )

    def has_company(self) -> bool:
        """See nobody: a card is locked while it is used."""
        return False

    def gauges(self) -> Mapping[str, float]:
        """Read clock, temperature and power."""
        nvml = self._nvml
        read = {
            "sm_clock_mhz": self._ask("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_SM),
            "temperature_c": self._ask("nvmlDeviceGetTemperature", nvml.NVML_TEMPERATURE_GPU),
            "power_w": self._ask("nvmlDeviceGetPowerUsage"),
        }
        found = {name: float(value) for name, value in read.items() if value is not None}
        if "power_w" in found:
            found["power_w"] /= 1000
        return found

    def _read_throttled_ns(self) -> dict[str, int]:
        read = {
            cause: self._ask("nvmlDeviceGetViolationStatus", policy)
            for cause, policy in self._policies.items()
        }
        return {
            cause: int(status.violationTime) for cause, status in read.items() if status is not None
        }

    def _ask(self, function: str, *arguments: Any) -> Any:
        """Ask the driver; None for what this card does not tell."""
        try:
            return getattr(self._nvml, function)(self._handle, *arguments)
        except self._nvml.NVMLError:
            return None


@dataclass(frozen=True, slots=True)
class _CpuReading:
    """Counters that only grow."""

    at_s: float
    busy_s: float
    stolen_s: float
    own_s: float
    waiting_s: float
    throttled: int

    @property
    def foreign_s(self) -> float:
        """What other programs used."""
        return self.busy_s - self.own_s


class CpuConditions:
    """A CPU as Linux counts it: stolen time, other programs, waiting for a processor, thermal throttling.

    `own_cpu_ns` says what processor time the benchmark itself has used, `waited_ns` how long its participants waited
    for a processor. Blocks that are too short to count in are looked at together. Waiting alone says nothing:
    participants and judge wake each other up, and wait for each other.
    """

    def __init__(
        self,
        own_cpu_ns: Callable[[], int],
        waited_ns: Callable[[], int],
        *,
        proc: Path = _PROC,
        processors: Path = _PROCESSORS,
    ) -> None:
        self._own_cpu_ns = own_cpu_ns
        self._waited_ns = waited_ns
        self._proc = proc
        self._throttle_counts = sorted(processors.glob("cpu[0-9]*/thermal_throttle/*_count"))
        self._count = os.cpu_count() or 1
        self._ticks_per_s = os.sysconf("SC_CLK_TCK")
        self._first: _CpuReading | None = None
        self._earlier: _CpuReading | None = None

    def before(self) -> None:
        """Read all counters, unless the block before was too short to count in."""
        self._earlier = self._earlier or self._read()
        self._first = self._first or self._earlier

    def after(self) -> str | None:
        """Compare the counters with those before."""
        assert self._earlier is not None
        earlier = self._earlier
        is_short = time.monotonic() - earlier.at_s < _SHORTEST_COUNTED_S
        if is_short and self._throttled() == earlier.throttled:
            return None
        now, self._earlier = self._read(), None
        elapsed_s = now.at_s - earlier.at_s
        if now.throttled > earlier.throttled:
            return "throttled by heat"
        offered_s = self._count * elapsed_s
        if now.stolen_s - earlier.stolen_s > STOLEN_SHARE * offered_s:
            return "processors were taken by the host"
        foreign_s = now.foreign_s - earlier.foreign_s
        if foreign_s > FOREIGN_SHARE * offered_s:
            return FOREIGN
        waited_s = now.waiting_s - earlier.waiting_s
        if waited_s > WAITING_SHARE * elapsed_s and foreign_s > _COMPETING_SHARE * offered_s:
            return "waited for a processor"
        return None

    def has_company(self) -> bool:
        """Compare the counters with those at the beginning."""
        if self._first is None:
            return False
        first, now = self._first, self._read()
        taken_s = now.foreign_s - first.foreign_s + now.stolen_s - first.stolen_s
        offered_s = self._count * (now.at_s - first.at_s)
        return taken_s > max(_COMPETING_SHARE * offered_s, _FEWEST_TICKS / self._ticks_per_s)

    def gauges(self) -> Mapping[str, float]:
        """Read the load average of the last minute."""
        return {"load_average": round(os.getloadavg()[0], 2)}

    def _read(self) -> _CpuReading:
        user, nice, system, _, _, irq, softirq, stolen = self._ticks()
        return _CpuReading(
            at_s=time.monotonic(),
            busy_s=(user + nice + system + irq + softirq) / self._ticks_per_s,
            stolen_s=stolen / self._ticks_per_s,
            own_s=self._own_cpu_ns() / 1e9,
            waiting_s=self._waited_ns() / 1e9,
            throttled=self._throttled(),
        )

    def _throttled(self) -> int:
        return sum(map(_number_in, self._throttle_counts))

    def _ticks(self) -> list[int]:
        try:
            first_line = (self._proc / "stat").read_text().partition("\n")[0]
        except OSError:
            return [0] * 8
        return [int(word) for word in first_line.split()[1:9]]


def gpu_conditions(uuid: str) -> Observer:
    """Open NVML for one card; `Undisturbed` where nvidia-ml-py or the driver does not let us."""
    try:
        pynvml: Any = importlib.import_module("pynvml")  # optional
    except ImportError:
        return Undisturbed()
    try:
        pynvml.nvmlInit()
        return GpuConditions(pynvml, pynvml.nvmlDeviceGetHandleByUUID(uuid))
    except pynvml.NVMLError:
        return Undisturbed()


def _number_in(file: Path) -> int:
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return 0
