"""How many times faster one job's new traces are than its old ones, and the interval of that."""

from __future__ import annotations

import enum
import itertools
import math
import statistics
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flashinfer_bench.data.wording import axes_text
from flashinfer_bench.report.compare.sides import identity
from flashinfer_bench.stats.between_runs import Part, assumed_on_device, mean_of_parts
from flashinfer_bench.stats.intervals import CONFIDENCE, series_interval
from flashinfer_bench.stats.shifts import quotient, series_shift, shift

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flashinfer_bench.data.rows import TraceRow
    from flashinfer_bench.report.compare.sides import Samples
    from flashinfer_bench.stats.between_runs import BetweenRuns, Uncertain
    from flashinfer_bench.stats.intervals import Interval

_ON_DEVICE = frozenset({"call", "device"})
_USUAL_BLOCKS = 12
_LEAST_BLOCKS = 6


class Basis(enum.StrEnum):
    """What is divided by what."""

    SPEEDUP = "speedup"
    """Speedups over the same reference, timed beside both: what the machine did to all cancels."""
    LATENCY = "latency"
    """Times as they were."""


class Source(enum.StrEnum):
    """What an interval was made of."""

    RUNS = "runs"
    SAMPLES = "samples"
    INTERVALS = "intervals"
    SAME_TRACE = "same trace"


OF_FEW_RUNS = frozenset({Source.SAMPLES, Source.INTERVALS})


@dataclass(frozen=True, slots=True)
class JobRatio:
    """How many times faster; without an interval, why there is none."""

    value: float | None
    interval: Interval | None
    basis: Basis
    source: Source | None
    reason: str = ""
    freedom: int | None = None
    """Degrees of freedom of what the interval knows of how runs differ."""
    shared: float = 0.0
    """Part of the interval's reach that jobs timed by the same processes may have in common."""
    common: float = 0.0
    """Part of it that all jobs have in common."""
    assumed: float | None = None
    """The variance that runs are taken to have before anything tells, where times were taken on a device."""
    between: float | None = None
    """By how much two runs of the same code are taken to differ, as a logarithm's deviation."""


@dataclass(frozen=True, slots=True)
class Timed:
    """Traces of one side that time a job, oldest first, and their raw samples by trace id."""

    rows: Sequence[TraceRow]
    samples: Mapping[str, Samples]

    @property
    def newest(self) -> TraceRow:
        """The latest one."""
        return self.rows[-1]


def job_ratio(old: Timed, new: Timed, basis: Basis) -> JobRatio:
    """Compare two sides of a job."""
    if not old.rows or not new.rows:
        return JobRatio(None, None, basis, None, "a trace that passed has no latency")
    if identity(old.newest) == identity(new.newest):
        return JobRatio(1.0, (1.0, 1.0), basis, Source.SAME_TRACE)
    unlike = _unlike(old.newest, new.newest)
    found = _ratio(old, new, basis)
    if unlike:
        return replace(found, interval=None, source=None, reason=unlike)
    return replace(found, assumed=_assumed(new.newest, basis))


def possible_bases(old: Timed, new: Timed) -> tuple[Basis, ...]:
    """Say by what two sides can be compared: by speedup only where the reference is the same."""
    if not old.rows or not new.rows or not has_same_reference(old.newest, new.newest):
        return (Basis.LATENCY,)
    return (Basis.SPEEDUP, Basis.LATENCY)


def has_same_reference(old: TraceRow, new: TraceRow) -> bool:
    """Tell whether both were timed beside the same code under the same conditions."""
    return bool(old.speedup and new.speedup) and _about_reference(old) == _about_reference(new)


def reference_ratio(old: TraceRow, new: TraceRow) -> tuple[float, Interval | None] | None:
    """Give how many times longer the new reference took; None where either was not timed."""
    if not old.reference_latency_ms or not new.reference_latency_ms:
        return None
    return quotient(
        new.reference_latency_ms, new.reference_interval_ms,
        old.reference_latency_ms, old.reference_interval_ms,
    )  # fmt: skip


def widened(
    pair: tuple[Timed, Timed], ratio: JobRatio, known: BetweenRuns, *, is_chosen: bool
) -> JobRatio:
    """Let the interval of a run or two know how runs differ, and that its basis was the better of two."""
    if ratio.interval is None or ratio.value is None or ratio.source not in OF_FEW_RUNS:
        return ratio
    found = known.widened(
        ratio.value,
        ratio.interval,
        share=statistics.mean(1 / len(each.rows) for each in pair),
        confidence=(1 + CONFIDENCE) / 2 if is_chosen else CONFIDENCE,
        assumed=ratio.assumed,
    )
    return replace(
        ratio,
        interval=found.interval,
        freedom=found.freedom,
        shared=found.shared,
        common=found.common,
        between=found.deviation,
    )


def width(ratio: JobRatio) -> float:
    """Say how wide an interval is, as a logarithm: what chooses the basis of a job."""
    if ratio.interval is None or ratio.interval[0] <= 0:
        return math.inf
    return math.log(ratio.interval[1] / ratio.interval[0])


def _ratio(old: Timed, new: Timed, basis: Basis) -> JobRatio:
    if not is_timed(old.newest, basis) or not is_timed(new.newest, basis):
        return JobRatio(None, None, basis, None, "no speedup: the reference was not timed")
    by_runs = shift(_run_speeds(old.rows, basis), _run_speeds(new.rows, basis))
    if by_runs[1] is not None:
        freedom = len(old.rows) + len(new.rows) - 2
        return JobRatio(*by_runs, basis, Source.RUNS, freedom=freedom, shared=1.0)
    if len(old.rows) == len(new.rows) == 1:
        blocks = [_block_speeds(each.newest, each.samples, basis) for each in (old, new)]
        if min(map(len, blocks)) >= _LEAST_BLOCKS:
            return JobRatio(*series_shift(*blocks), basis, Source.SAMPLES)
    value, interval = quotient(*_averaged(new, basis), *_averaged(old, basis))
    if interval is not None:
        return JobRatio(value, interval, basis, Source.INTERVALS)
    bare = [name for name, each in (("old", old), ("new", new)) if _is_bare(each.newest, basis)]
    whose = " and ".join(bare) or "one"
    return JobRatio(value, None, basis, None, f"{whose}: neither samples nor an interval")


def _assumed(row: TraceRow, basis: Basis) -> float | None:
    """Say what is assumed of how runs differ, where that does not depend on blocks."""
    if row.latency_kind not in _ON_DEVICE or not row.latency_ms:
        return None
    beside = row.reference_latency_ms if basis is Basis.SPEEDUP else None
    return assumed_on_device(row.latency_ms, beside)


def _is_bare(row: TraceRow, basis: Basis) -> bool:
    return recorded(row, basis)[1] is None


def is_timed(row: TraceRow, basis: Basis) -> bool:
    """Tell whether a trace has a speed of this kind."""
    return bool(row.latency_ms) and (basis is Basis.LATENCY or bool(row.speedup))


def recorded(row: TraceRow, basis: Basis) -> tuple[float, Interval | None]:
    """Give a trace's speed as it was recorded: its speedup, or calls a millisecond."""
    if basis is Basis.SPEEDUP:
        return row.speedup or math.nan, row.speedup_interval
    interval = row.latency_interval_ms
    is_usable = interval is not None and interval[0] > 0
    inverted = (1 / interval[1], 1 / interval[0]) if is_usable and interval else None
    return 1 / (row.latency_ms or math.nan), inverted


def _run_speeds(rows: Sequence[TraceRow], basis: Basis) -> list[float]:
    return [recorded(row, basis)[0] for row in rows if is_timed(row, basis)]


def _averaged(side: Timed, basis: Basis) -> Uncertain:
    """Average the runs of one side; the interval knows what is within them."""
    parts = []
    for row in side.rows:
        if is_timed(row, basis):
            value, interval = recorded(row, basis)
            blocks = [] if interval else _block_speeds(row, side.samples, basis)
            parts.append(Part(value, interval or series_interval(blocks)))
    known = [part for part in parts if part.interval and part.interval[0] > 0]
    mean, interval = mean_of_parts(known or parts[-1:])
    return mean or math.nan, interval


def _block_speeds(row: TraceRow, kept: Mapping[str, Samples], basis: Basis) -> list[float]:
    """Give a speed for each block of a run that kept its samples, in the order of time."""
    samples = kept.get(row.trace_id or "", {})
    count = row.block_count or _USUAL_BLOCKS
    solution = _block_quartiles(samples.get("solution", []), count)
    reference = _block_quartiles(samples.get("reference", []), count)
    if basis is Basis.LATENCY:
        reference = [1.0] * len(solution)
    if len(reference) != len(solution):
        return []
    pairs = zip(reference, solution, strict=True)
    return [ref / sol for ref, sol in pairs if ref > 0 and sol > 0]


def _block_quartiles(samples: Sequence[float], count: int) -> list[float]:
    """Cut samples into blocks of nearly equal size, as they were taken, and give each one's first quartile.

    What else the machine does only ever lengthens calls: of a block that was disturbed in part it shows the rest.
    """
    if len(samples) < count:
        return list(samples)
    ends = [round(index * len(samples) / count) for index in range(count + 1)]
    blocks = [sorted(samples[begin:end]) for begin, end in itertools.pairwise(ends)]
    return [block[len(block) // 4] for block in blocks]


def _unlike(old: TraceRow, new: TraceRow) -> str:
    """Say why two times do not compare; nothing where they do."""
    if old.axes != new.axes:
        return (
            f"another workload of the same id: {axes_text(old.axes)} against {axes_text(new.axes)}"
        )
    if old.latency_kind and new.latency_kind and old.latency_kind != new.latency_kind:
        return f"timed differently: {old.latency_kind} against {new.latency_kind} time"
    if None not in {old.is_cold, new.is_cold} and old.is_cold != new.is_cold:
        names = {True: "cold", False: "hot", None: ""}
        return f"timed differently: {names[old.is_cold]} against {names[new.is_cold]} caches"
    if old.launch != new.launch:
        ways = {None: "calls launched by their own code", "graph": "replays of CUDA graphs"}
        return f"timed differently: {ways.get(old.launch)} against {ways.get(new.launch)}"
    return ""


def _about_reference(row: TraceRow) -> tuple[object, ...]:
    return (
        row.hardware, row.definition, row.definition_hash, row.libs.get("torch"), row.threads,
        row.latency_kind, row.is_cold, row.launch,
    )  # fmt: skip
