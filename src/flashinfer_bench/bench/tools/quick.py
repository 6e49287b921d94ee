"""Time callables in this very process: a quick look, with the clocks and statistics of a benchmark.

Nothing is checked, nothing is recorded, and nothing keeps a callable from cheating: inputs are the same in
every call and the callable times in the process it runs in.
"""

from __future__ import annotations

import itertools
import statistics
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from flashinfer_bench.bench.choices import clock_name, is_cold_on
from flashinfer_bench.bench.timing.turns import block_sizes, calls_per_sample, order_of_turns
from flashinfer_bench.bench.timing.wall import (
    Clock,
    Evictor,
    LatencyKind,
    WallClock,
    overhead_ns,
)
from flashinfer_bench.errors import UsageError
from flashinfer_bench.stats import blocks as spread
from flashinfer_bench.stats.intervals import series_interval
from flashinfer_bench.stats.verdicts import THRESHOLD, Ratio, Verdict, ratio_of, require_threshold
from flashinfer_bench.tensors.conditions import CpuConditions, Undisturbed
from flashinfer_bench.tensors.machine import last_level_cache_bytes
from flashinfer_bench.text.numbers import count_text, latency_text, percent_text, speedup_text
from flashinfer_bench.text.tables import Column, table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from flashinfer_bench.bench.choices import CacheChoice, ClockChoice
    from flashinfer_bench.stats.intervals import Interval
    from flashinfer_bench.tensors.conditions import Observer

SAMPLES = 50
WARMUP_CALLS = 10
MOST_SECONDS = 10.0

_MOST_CALLS_PER_SAMPLE = 4096
_WARMUP_SHARE = 0.25
_STEADY_CALLS = 5
_STEADY = 1.5
"""Warm-up ends when the last calls differ by no more than this factor."""
_DISTURBED = 3.0
"""A block that took so many times as long as usual is taken again: something else had the processor."""
_LEAST_BLOCKS = 3
_WIDEST = 10.0
"""An interval that reaches over more than this factor says nothing."""
_NANOSECONDS_PER_MS = 1e6
_COLUMNS = (
    Column("name"),
    Column("latency", is_number=True),
    Column("noise", is_number=True),
    Column("speedup (95%)", is_number=True),
    Column("verdict"),
)


@dataclass(frozen=True, slots=True)
class Measurement:
    """How long one call takes. Times are in milliseconds unless their name says otherwise."""

    name: str
    latency_ms: float
    """Median over all samples."""
    latency_interval_ms: Interval | None
    """95% interval of the median, over blocks; None with fewer than six blocks."""
    quartiles_ms: Interval
    """First and third."""
    noise: float
    """Interquartile range over the median."""
    sample_count: int
    block_count: int
    calls_per_sample: int
    """Short calls are timed several at a time."""
    clock: str
    clock_overhead_ns: float
    """What the clock says about a call that does nothing; not taken off."""
    latency_kind: LatencyKind
    is_cold: bool
    """Whether caches were evicted before each sample."""
    samples_ms: tuple[float, ...] = field(repr=False)
    """Time of one call in each sample, in the order they were taken."""
    blocks_disturbed: int = 0
    """Blocks that took three times as long as usual, taken again or not."""
    had_company: bool = False
    """Whether other programs computed meanwhile: they may have slowed all blocks alike, which no interval shows."""

    def to_dict(self) -> dict[str, Any]:
        """Give everything as JSON-ready values."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found

    def __str__(self) -> str:
        calls = "" if self.calls_per_sample == 1 else f" of {self.calls_per_sample} calls"
        interval = "" if self.latency_interval_ms is None else f" {_interval(self)}"
        about = _disturbed_text([self])
        disturbed = f", {about}" if about else ""
        return (
            f"{self.name}: {latency_text(self.latency_ms)}{interval}, noise {self.noise:.1%}, "
            f"{self.sample_count} samples{calls}, {self.clock} clock{disturbed}"
        )


@dataclass(frozen=True, slots=True)
class Comparison:
    """Callables timed against each other, in alternating blocks."""

    baseline: str
    """The one others are compared with."""
    threshold: float
    """Differences up to this share count as none."""
    measurements: dict[str, Measurement]
    ratios: dict[str, Ratio]
    """How many times faster than the baseline, by name; the baseline itself is left out."""

    @property
    def fastest(self) -> str:
        """Name with the lowest median; whether it is significant is what `ratios` say."""
        return min(self.measurements, key=lambda name: self.measurements[name].latency_ms)

    def verdict(self, name: str) -> Verdict:
        """Say how a callable compares with the baseline."""
        return self.ratios[name].verdict

    def to_dict(self) -> dict[str, Any]:
        """Give everything as JSON-ready values."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found

    def __str__(self) -> str:
        rows = [self._cells(measured) for measured in self.measurements.values()]
        lines = [f"against {self.baseline}", table(_COLUMNS, rows).text]
        about = _disturbed_text(self.measurements.values())
        return "\n".join([*lines, f"  {about}"] if about else lines)

    def _cells(self, measured: Measurement) -> tuple[str, ...]:
        latency = latency_text(measured.latency_ms, measured.latency_interval_ms)
        ratio = self.ratios.get(measured.name)
        versus = ("", "") if ratio is None else (_speedup(ratio), ratio.verdict)
        return (measured.name, latency, percent_text(measured.noise), *versus)


def measure(
    function: Callable[..., object],
    *arguments: object,
    samples: int = SAMPLES,
    warmup: int = WARMUP_CALLS,
    max_seconds: float = MOST_SECONDS,
    device: str | None = None,
    clock: ClockChoice = "auto",
    cache: CacheChoice = "auto",
) -> Measurement:
    """Time `function(*arguments)`.

    With CUDA tensors among the arguments, or `device="cuda"`, the clock is a pair of CUDA events with the
    L2 cache evicted before each sample; otherwise it is the wall clock, and no torch is needed. `clock` may
    be `events`, `cupti` or `wall`, `cache` `cold` (evicted before each sample) or `hot`. What the function
    raises is raised. Sampling ends early, after whole blocks, when `max_seconds` are over.

    >>> found = measure(sorted, [3, 1, 2], samples=20)
    >>> found.sample_count, found.clock, found.latency_ms > 0
    (20, 'wall', True)
    """
    name = getattr(function, "__name__", type(function).__name__)
    plan = _Plan(samples, warmup, max_seconds)
    clocks = _clock_of(arguments, device, clock, cache)
    (side,) = _take_turns({name: function}, arguments, plan, clocks)
    return side.measurement()


def compare(
    functions: Mapping[str, Callable[..., object]],
    arguments: Sequence[object] = (),
    *,
    baseline: str | None = None,
    threshold: float = THRESHOLD,
    samples: int = SAMPLES,
    warmup: int = WARMUP_CALLS,
    max_seconds: float = MOST_SECONDS,
    device: str | None = None,
    clock: ClockChoice = "auto",
    cache: CacheChoice = "auto",
) -> Comparison:
    """Time callables on the same arguments against each other; the first one is the baseline.

    They take turns in blocks, so that a machine that slows down slows all of them, and all take the same
    number of calls per sample. `max_seconds` is for each. See `measure` for clocks.

    >>> numbers = list(range(2000))
    >>> found = compare({"sorted": sorted, "twice": lambda x: sorted(sorted(x))}, [numbers])
    >>> found.fastest, str(found.verdict("twice"))
    ('sorted', 'SLOWER')
    """
    plan = _Plan(samples, warmup, max_seconds * len(functions))
    if not functions:
        raise UsageError("nothing to compare: give a mapping of names to callables")
    first = next(iter(functions)) if baseline is None else baseline
    if first not in functions:
        raise UsageError(f"no callable is named {first!r}; there are {', '.join(functions)}")
    require_threshold(threshold)
    sides = _take_turns(functions, arguments, plan, _clock_of(arguments, device, clock, cache))
    (old,) = (side for side in sides if side.name == first)
    ratios = {
        side.name: ratio_of(
            [spread.block_ratios(old.blocks_ns, side.blocks_ns)], threshold=threshold
        )
        for side in sides
        if side is not old
    }
    return Comparison(first, threshold, {side.name: side.measurement() for side in sides}, ratios)


@dataclass(frozen=True, slots=True)
class _Plan:
    """How much is measured; refuses what cannot be."""

    samples: int
    warmup: int
    seconds: float

    def __post_init__(self) -> None:
        if self.samples < 1 or self.warmup < 0 or not self.seconds >= 0:
            raise UsageError("samples are at least 1, warm-up calls and seconds at least 0")


@dataclass(slots=True)
class _Side:
    """One callable, and its samples so far."""

    name: str
    function: Callable[..., object]
    arguments: Sequence[object]
    clock: Clock
    calls_per_sample: int = 1
    host_ns: float | None = None
    had_company: bool = False
    blocks_ns: list[list[float]] = field(default_factory=list)
    disturbed: int = 0

    def is_disturbed(self, block: int) -> bool:
        """Whether a block took far longer than usual."""
        middles = [statistics.median(each) for each in self.blocks_ns]
        return middles[block] > _DISTURBED * statistics.median(middles)

    def block_ns(self, size: int) -> list[float]:
        """Take a block; the first sample after another's turn finds other caches and does not count."""
        self.sample_ns()
        return [self.sample_ns() for _ in range(size)]

    def sample_ns(self) -> float:
        """Take one sample; give the time of one call."""
        count = self.calls_per_sample
        taken_ns, _ = self.clock.time_ns(self.function, [self.arguments] * count)
        self.host_ns = self.clock.host_ns and self.clock.host_ns / count
        return taken_ns / count

    def measurement(self) -> Measurement:
        """Sum the samples up."""
        samples_ms = [
            value / _NANOSECONDS_PER_MS for value in itertools.chain.from_iterable(self.blocks_ns)
        ]
        middles_ms = [statistics.median(block) / _NANOSECONDS_PER_MS for block in self.blocks_ns]
        return Measurement(
            name=self.name,
            latency_ms=statistics.median(samples_ms),
            latency_interval_ms=series_interval(middles_ms),
            quartiles_ms=spread.quartiles(samples_ms),
            noise=spread.noise(samples_ms),
            sample_count=len(samples_ms),
            block_count=len(self.blocks_ns),
            calls_per_sample=self.calls_per_sample,
            clock=self.clock.name,
            clock_overhead_ns=max(0.0, overhead_ns(self.clock)),
            latency_kind=self.clock.latency_kind,
            is_cold=self.clock.is_cold,
            samples_ms=tuple(samples_ms),
            blocks_disturbed=self.disturbed,
            had_company=self.had_company,
        )


def _take_turns(
    functions: Mapping[str, Callable[..., object]],
    arguments: Sequence[object],
    plan: _Plan,
    clock: Clock,
) -> list[_Side]:
    """Warm all up, then time them block by block, in a new order every block."""
    for name, function in functions.items():
        if not callable(function):
            raise UsageError(f"{name!r} is no callable but {type(function).__name__}")
    sides = [_Side(name, function, arguments, clock) for name, function in functions.items()]
    until_s = time.monotonic() + plan.seconds
    machine = _machine(clock)
    machine.before()
    clock.begin()
    typical_ns = [_warm_up(side, plan, len(sides)) for side in sides]
    hosts_ns = [side.host_ns for side in sides if side.host_ns is not None]
    calls = 1 if clock.is_cold else calls_per_sample(min(typical_ns), most=_MOST_CALLS_PER_SAMPLE)
    clock.begin(calls * max(hosts_ns) if hosts_ns else None)
    for side in sides:
        side.calls_per_sample = calls
    for block, size in enumerate(block_sizes(plan.samples)):
        if block and time.monotonic() > until_s:
            break
        for side in order_of_turns(sides):
            side.blocks_ns.append(side.block_ns(size))
    _take_again(sides, until_s)
    for side in sides:
        side.had_company = machine.has_company()
    return sides


def _machine(clock: Clock) -> Observer:
    """Watch for other programs where a processor is what is timed."""
    if clock.latency_kind != "wall":
        return Undisturbed()
    return CpuConditions(time.process_time_ns, lambda: 0)


def _take_again(sides: Sequence[_Side], until_s: float) -> None:
    """Take disturbed blocks of all sides once more, while there is time."""
    count = len(sides[0].blocks_ns)
    if count < _LEAST_BLOCKS:
        return
    disturbed = [[each for each in range(count) if side.is_disturbed(each)] for side in sides]
    for side, blocks in zip(sides, disturbed, strict=True):
        side.disturbed = len(blocks)
    for block in sorted(set(itertools.chain.from_iterable(disturbed))):
        if time.monotonic() > until_s:
            return
        for side in order_of_turns(sides):
            side.blocks_ns[block] = side.block_ns(len(side.blocks_ns[block]))


def _warm_up(side: _Side, plan: _Plan, count: int) -> float:
    """Run the untimed calls, one at least, and more until the last ones are alike; give the time of a typical one."""
    until_s = time.monotonic() + plan.seconds * _WARMUP_SHARE / count
    taken_ns = [side.sample_ns()]
    while (
        len(taken_ns) < plan.warmup or (plan.warmup >= _STEADY_CALLS and not _is_steady(taken_ns))
    ) and time.monotonic() < until_s:
        taken_ns.append(side.sample_ns())
    return statistics.median(taken_ns[len(taken_ns) // 2 :])


def _is_steady(taken_ns: Sequence[float]) -> bool:
    last = taken_ns[-_STEADY_CALLS:]
    return max(last) <= _STEADY * min(last)


def _clock_of(
    arguments: Sequence[object], device: str | None, clock: ClockChoice, cache: CacheChoice
) -> Clock:
    """Open the clock for these tensors; for the wall clock on a CPU torch is never loaded."""
    if cache == "both":
        raise UsageError("cache 'both' is for `run`; measure twice, with 'cold' and with 'hot'")
    found = {device} if device is not None else set(_cuda_devices(arguments))
    if len(found) > 1:
        raise UsageError(f"tensors of several devices: {', '.join(sorted(found))}")
    if found <= {"cpu"}:
        clock_name("cpu", clock)
        is_cold = is_cold_on("cpu", cache)
        return WallClock(evict=Evictor(last_level_cache_bytes()) if is_cold else None)
    import torch  # noqa: PLC0415  # only CUDA needs it here

    from flashinfer_bench.bench.timing.clocks import clock_for  # noqa: PLC0415  # loads torch

    (name,) = found
    if not torch.cuda.is_available():
        raise UsageError(f"there is no CUDA device for {name!r}")
    return clock_for(torch.device(name), clock, cache)


def _cuda_devices(value: object) -> Iterator[str]:
    torch: Any = sys.modules.get("torch")
    if torch is None:  # then there are no tensors
        return
    if isinstance(value, torch.Tensor):
        if value.is_cuda:
            yield str(value.device)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _cuda_devices(each)
    elif isinstance(value, dict):
        yield from _cuda_devices(list(value.values()))


def _interval(measured: Measurement) -> str:
    low, high = (latency_text(end) for end in measured.latency_interval_ms or ())
    return f"[{low}, {high}]"


def _speedup(ratio: Ratio) -> str:
    """Write a speedup; an interval that is too wide to say anything is said to be."""
    if ratio.interval and ratio.interval[1] > _WIDEST * ratio.interval[0]:
        return f"{speedup_text(ratio.value)} (too noisy for an interval)"
    return speedup_text(ratio.value, ratio.interval)


def _disturbed_text(measurements: Iterable[Measurement]) -> str:
    every = list(measurements)
    count = sum(each.blocks_disturbed for each in every)
    found = [f"the machine disturbed {count_text(count, 'block')}, taken again"] if count else []
    if any(each.had_company for each in every):
        found.append("other programs computed meanwhile, times may be longer than alone")
    return f"{'; '.join(found)}: measure once more" if found else ""
