"""What kernels are worth to a model: its profile's counts times what was measured of each kernel."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flashinfer_bench.data.wording import sizes_text
from flashinfer_bench.text.numbers import (
    NOTHING,
    ONE_PAIR_LEGEND,
    count_text,
    latency_text,
    percent_text,
    speedup_text,
)
from flashinfer_bench.text.tables import Block, Page, RowColumn, heading, paragraph, rows_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from flashinfer_bench.data import Profile
    from flashinfer_bench.data.profile import KernelUse
    from flashinfer_bench.data.rows import TraceRow
    from flashinfer_bench.report.standing import Standing, Tally
    from flashinfer_bench.stats.intervals import Interval

_SHOWN_UNMEASURED = 12


@dataclass(frozen=True, slots=True)
class KernelWorth:
    """One kernel of a model at one set of sizes."""

    kernel: str
    """Name of its definition."""
    axes: Mapping[str, int]
    count: int
    reference_ms: float
    """One call of the reference."""
    best: str | None
    """The fastest passing solution, if it is surely faster than the reference."""
    best_ms: float
    """One call of it; of the reference where nothing is faster."""
    speedup: float
    speedup_interval: Interval | None
    share: float
    """Of the model's kernel time, all kernels by their references."""
    share_after: float
    """Of what the model takes with the best solutions."""
    if_twice_as_fast: float
    """The model's speedup if this kernel's reference took half its time and nothing else changed: Amdahl's law."""
    if_free: float
    """The same if it took none: the most that any kernel can give."""


@dataclass(frozen=True, slots=True)
class ModelWorth:
    """A model's kernel time, before and after, on one kind of hardware."""

    model: str
    framework: str
    hardware: str
    kernels: tuple[KernelWorth, ...]
    """Measured kernels, the largest share first."""
    unmeasured: tuple[tuple[str, int], ...]
    """Names and counts; they are in no sum."""
    before_ms: float
    """Σ count · reference."""
    after_ms: float
    """Σ count · best."""
    speedup: float | None
    """before / after; None where nothing was measured."""
    speedup_interval: Interval | None
    ambiguous: tuple[tuple[str, int], ...] = ()
    """Kernels measured at several sizes that the profile does not tell apart; they are in no sum."""
    weak: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Kernels with a workload on which wrong ones are known to pass, and what those do, such as `ignores mask`."""

    @property
    def calls(self) -> int:
        """Calls in one pass that the sums hold."""
        return sum(each.count for each in self.kernels)

    @property
    def left_out_calls(self) -> int:
        """Calls in one pass that no sum holds."""
        return sum(count for _, count in (*self.unmeasured, *self.ambiguous))


@dataclass(frozen=True, slots=True)
class _Measured:
    use: KernelUse
    name: str
    row: TraceRow
    solution: str | None

    @property
    def reference_ms(self) -> float:
        return self.row.reference_latency_ms or 0.0

    @property
    def speedup(self) -> float:
        return (self.row.speedup or 1.0) if self.solution else 1.0

    @property
    def interval(self) -> Interval | None:
        return self.row.speedup_interval if self.solution else (1.0, 1.0)

    @property
    def before_ms(self) -> float:
        return self.use.count * self.reference_ms

    @property
    def after_ms(self) -> float:
        return self.before_ms / self.speedup


def model_worth(
    profile: Profile, standing: Standing, weak: Mapping[str, Sequence[str]] | None = None
) -> tuple[ModelWorth, ...]:
    """Weigh what was measured by a profile's counts, for each kind of hardware by itself.

    `weak`: by definition, what wrong kernels do that pass on one of its workloads.
    """
    found = [_worth(profile, hardware, each) for hardware, each in standing.tallies.items()]
    names = sorted({_of(use)[0] for use in profile.kernels} & set(weak or ()))
    named = tuple((name, tuple((weak or {})[name])) for name in names)
    return tuple(replace(each, weak=named) for each in found or [_worth(profile, NOTHING, {})])


def _worth(
    profile: Profile, hardware: str, tallies: Mapping[str, Mapping[str, Tally]]
) -> ModelWorth:
    found: list[_Measured] = []
    unmeasured: list[tuple[str, int]] = []
    ambiguous: list[tuple[str, int]] = []
    for use in profile.kernels:
        name, axes = _of(use)
        rows = _meant(use, _rows(axes, tallies.get(name, {})))
        if not rows:
            unmeasured.append((name, use.count))
        elif any(row.axes != rows[0].axes for row in rows):
            ambiguous.append((name, use.count))
        else:
            found.append(_measured(use, name, rows))
    before_ms = math.fsum(each.before_ms for each in found)
    after_ms = math.fsum(each.after_ms for each in found)
    kernels = [_kernel(each, before_ms, after_ms) for each in found]
    return ModelWorth(
        model=profile.model,
        framework=profile.framework,
        hardware=hardware,
        kernels=tuple(sorted(kernels, key=lambda each: (-each.share, each.kernel))),
        unmeasured=tuple(unmeasured),
        before_ms=before_ms,
        after_ms=after_ms,
        speedup=before_ms / after_ms if after_ms else None,
        speedup_interval=_interval(found, before_ms, after_ms),
        ambiguous=tuple(ambiguous),
    )


def _of(use: KernelUse) -> tuple[str, Mapping[str, int]]:
    """Give the definition's name and the sizes of a use; a signature is known by its name."""
    from flashinfer_bench.data.profile import KernelReference  # noqa: PLC0415  # pydantic

    if isinstance(use.kernel, KernelReference):
        return use.kernel.definition, use.kernel.axes
    return use.kernel.name, use.kernel.to_workload().axes


def _rows(axes: Mapping[str, int], by_solution: Mapping[str, Tally]) -> list[TraceRow]:
    """Collect what passed and was compared at these sizes."""
    return [
        row
        for tally in by_solution.values()
        for row in tally.passed.values()
        if row.speedup and row.reference_latency_ms and _has(row, axes)
    ]


def _meant(use: KernelUse, rows: list[TraceRow]) -> list[TraceRow]:
    """Keep to the workload that a profile names, if it was measured."""
    wanted = getattr(use.kernel, "workload", None)
    named = [row for row in rows if row.workload_uuid == wanted]
    return named or rows


def _measured(use: KernelUse, name: str, rows: Sequence[TraceRow]) -> _Measured:
    """Take the fastest that is surely faster than the reference, or the reference where nothing is."""
    sure = [row for row in rows if _least_speedup(row) > 1]
    row = max(sure or rows, key=lambda each: (each.speedup or 0.0, each.solution))
    return _Measured(use, name, row, row.solution if sure else None)


def _least_speedup(row: TraceRow) -> float:
    return row.speedup_interval[0] if row.speedup_interval else row.speedup or 0.0


def _has(row: TraceRow, axes: Mapping[str, int]) -> bool:
    return all(row.axes.get(axis, length) == length for axis, length in axes.items())


def _kernel(each: _Measured, before_ms: float, after_ms: float) -> KernelWorth:
    share = each.before_ms / before_ms if before_ms else 0.0
    return KernelWorth(
        kernel=each.name,
        axes=dict(each.row.axes),
        count=each.use.count,
        reference_ms=each.reference_ms,
        best=each.solution,
        best_ms=each.reference_ms / each.speedup,
        speedup=each.speedup,
        speedup_interval=each.interval,
        share=share,
        share_after=each.after_ms / after_ms if after_ms else 0.0,
        if_twice_as_fast=1 / (1 - share / 2),
        if_free=1 / (1 - share) if share < 1 else math.inf,
    )


def _interval(found: Iterable[_Measured], before_ms: float, after_ms: float) -> Interval | None:
    """Carry the kernels' intervals through: independent errors of a sum add in squares, up and down apart."""
    down, up = [], []
    for each in found:
        if each.interval is None or each.interval[0] <= 0:
            return None
        low, high = each.interval
        down.append(each.after_ms - each.before_ms / high)
        up.append(each.before_ms / low - each.after_ms)
    if not down or not after_ms:
        return None
    return before_ms / (after_ms + math.hypot(*up)), before_ms / (after_ms - math.hypot(*down))


def model_page(worths: Iterable[ModelWorth]) -> Page:
    """Show what each kernel is worth."""
    return tuple(block for worth in worths for block in _blocks(worth))


def _blocks(worth: ModelWorth) -> Iterator[Block]:
    yield heading(f"{worth.model} ({worth.framework}) on {worth.hardware}")
    if worth.kernels:
        yield rows_table(_COLUMNS, worth.kernels)
        yield paragraph("", *_sum_lines(worth))
    elif worth.unmeasured or not worth.ambiguous:
        yield paragraph("none of its kernels was measured here: `flashinfer-bench run` does it")
    yield from _names_block(worth.unmeasured, "not measured, in no sum")
    yield from _names_block(
        worth.ambiguous,
        "measured at several sizes, in no sum: the profile's `axes` do not say which size is meant",
    )
    if worth.weak:
        yield paragraph(
            f"on workloads of {count_text(len(worth.weak), 'kernel')} a wrong one passes, too:",
            *_weak_lines(worth.weak),
        )


def _sum_lines(worth: ModelWorth) -> Iterator[str]:
    gain = speedup_text(worth.speedup, worth.speedup_interval)
    yield (
        f"kernel time {latency_text(worth.before_ms)} by references, "
        f"{latency_text(worth.after_ms)} with the best solutions: {gain}"
    )
    if worth.speedup_interval is not None:
        yield ONE_PAIR_LEGEND
    if worth.left_out_calls:
        calls = worth.calls + worth.left_out_calls
        yield f"that is of {worth.calls:,} of the model's {calls:,} calls; shares and speedups leave out the others"
    yield (
        "twice as fast, at no cost: the model's speedup if this kernel alone took half its reference's "
        "time, or none"
    )


def _weak_lines(weak: Sequence[tuple[str, Sequence[str]]]) -> Iterator[str]:
    yield from (f"{name}: one that {', '.join(said)}" for name, said in weak[:_SHOWN_UNMEASURED])
    if len(weak) > _SHOWN_UNMEASURED:
        yield f"and {len(weak) - _SHOWN_UNMEASURED} more"


def _names_block(names: Sequence[tuple[str, int]], what: str) -> Iterator[Block]:
    if names:
        shown = [f"{name} × {count:,}" for name, count in names[:_SHOWN_UNMEASURED]]
        shown += [f"and {len(names) - len(shown)} more"] if len(names) > len(shown) else []
        yield paragraph(f"{count_text(len(names), 'kernel')} {what}: {', '.join(shown)}")


_COLUMNS: tuple[RowColumn[KernelWorth], ...] = (
    RowColumn("kernel", lambda each: each.kernel),
    RowColumn("sizes", lambda each: sizes_text(each.axes)),
    RowColumn("calls", lambda each: f"{each.count:,}", is_number=True),
    RowColumn("reference", lambda each: latency_text(each.reference_ms), is_number=True),
    RowColumn("share", lambda each: percent_text(each.share), is_number=True),
    RowColumn("best solution", lambda each: each.best or "the reference"),
    RowColumn(
        "speedup (95%)",
        lambda each: speedup_text(each.speedup, each.speedup_interval) if each.best else NOTHING,
        is_number=True,
    ),
    RowColumn("share after", lambda each: percent_text(each.share_after), is_number=True),
    RowColumn("twice as fast", lambda each: speedup_text(each.if_twice_as_fast), is_number=True),
    RowColumn(
        "at no cost",
        lambda each: speedup_text(each.if_free) if math.isfinite(each.if_free) else "∞",
        is_number=True,
    ),
)
