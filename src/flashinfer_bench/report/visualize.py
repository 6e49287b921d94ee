"""Recorded traces as charts in a terminal: speedups, latency against size, samples one after another."""

from __future__ import annotations

import math
import statistics
import string
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashinfer_bench.report.charts import ASCII, UNICODE, Ink, bar, scatter, sparkline
from flashinfer_bench.report.numbers import (
    count_text,
    geometric_mean,
    latency_text,
    mean_interval,
    speedup_text,
)
from flashinfer_bench.report.pages import left_out_blocks
from flashinfer_bench.report.tables import Block, Page, heading, paragraph, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from flashinfer_bench.data.rows import TraceRow
    from flashinfer_bench.report.numbers import Interval
    from flashinfer_bench.report.standing import LeftOut, Standing, Tally

    # Gives, by trace id, milliseconds by contestant: of the traces of one definition.
    SamplesOf = Callable[[str, Sequence[str]], Mapping[str, Mapping[str, Sequence[float]]]]

WIDTH = 100
_LEAST_BAR = 10
_MARKS = string.ascii_lowercase + string.ascii_uppercase.replace("R", "")
_REFERENCE = "R"


@dataclass(frozen=True, slots=True)
class SizedLatency:
    """One workload of one solution."""

    workload: str
    axes: dict[str, int]
    latency_ms: float
    reference_latency_ms: float | None
    speedup: float | None
    speedup_interval: Interval | None
    samples_ms: tuple[float, ...] | None
    """As they were taken; None where none were kept."""

    @property
    def size(self) -> int:
        """Product of the axes."""
        return math.prod(self.axes.values())


@dataclass(frozen=True, slots=True)
class SolutionChart:
    """What one solution did, workload by workload, the smallest first."""

    solution: str
    author: str | None
    language: str | None
    speedup: float | None
    """Geometric mean over workloads that passed."""
    speedup_interval: Interval | None
    failed: int
    violations: int
    """How many of those that failed broke a rule of the harness."""
    workloads: tuple[SizedLatency, ...]


@dataclass(frozen=True, slots=True)
class DefinitionChart:
    """All solutions of a definition, the fastest first."""

    definition: str
    solutions: tuple[SolutionChart, ...]


@dataclass(frozen=True, slots=True)
class HardwareCharts:
    """All definitions measured on one kind of hardware."""

    hardware: str
    definitions: tuple[DefinitionChart, ...]


def charts(standing: Standing, samples_of: SamplesOf) -> tuple[HardwareCharts, ...]:
    """Collect what is drawn; definitions without a passing trace are drawn as nothing."""
    return tuple(
        HardwareCharts(
            hardware,
            tuple(
                _definition(name, list(by_solution.values()), samples_of)
                for name, by_solution in sorted(tallies.items())
                if by_solution
            ),
        )
        for hardware, tallies in standing.tallies.items()
    )


def visualize_page(
    groups: Sequence[HardwareCharts],
    left_out: LeftOut,
    *,
    width: int = WIDTH,
    is_ascii: bool = False,
) -> Page:
    """Draw everything; `is_ascii` keeps to the characters every terminal has."""
    ink = ASCII if is_ascii else UNICODE
    blocks: list[Block] = []
    for group in groups:
        for chart in group.definitions:
            blocks.append(heading(f"{chart.definition}, on {group.hardware}"))
            blocks += _definition_blocks(chart, width, ink)
    if not blocks:
        blocks = [
            heading("No traces yet"),
            paragraph("`flashinfer-bench run` measures the solutions of a dataset"),
        ]
    return (*blocks, *left_out_blocks(left_out))


def _definition(name: str, tallies: Sequence[Tally], samples_of: SamplesOf) -> DefinitionChart:
    ids = [row.trace_id for tally in tallies for row in tally.passed.values() if row.trace_id]
    samples = samples_of(name, ids)
    found = [_solution(tally, samples) for tally in tallies]
    return DefinitionChart(name, tuple(sorted(found, key=_fastest_first)))


def _fastest_first(chart: SolutionChart) -> tuple[float, str]:
    return -(chart.speedup or 0.0), chart.solution


def _solution(tally: Tally, samples: Mapping[str, Mapping[str, Sequence[float]]]) -> SolutionChart:
    points = [_sized(row, samples) for row in tally.passed.values()]
    known = [(each.speedup, each.speedup_interval) for each in points if each.speedup]
    return SolutionChart(
        solution=tally.solution,
        author=tally.author,
        language=tally.language,
        speedup=geometric_mean([speedup for speedup, _ in known]),
        speedup_interval=mean_interval(known),
        failed=len(tally.failed),
        violations=tally.violation_count,
        workloads=tuple(sorted(points, key=lambda each: (each.size, each.workload))),
    )


def _sized(row: TraceRow, samples: Mapping[str, Mapping[str, Sequence[float]]]) -> SizedLatency:
    kept = samples.get(row.trace_id or "", {}).get("solution")
    return SizedLatency(
        workload=row.workload_uuid,
        axes=dict(row.axes),
        latency_ms=row.latency_ms or 0.0,
        reference_latency_ms=row.reference_latency_ms,
        speedup=row.speedup,
        speedup_interval=row.speedup_interval,
        samples_ms=tuple(kept) if kept else None,
    )


def _definition_blocks(chart: DefinitionChart, width: int, ink: Ink) -> list[Block]:
    lines = _bars(chart, width, ink)
    for part in (_sizes(chart, width, ink), _sparks(chart, width, ink)):
        if part:
            lines += ["", *part]
    return [paragraph(*lines)]


def _bars(chart: DefinitionChart, width: int, ink: Ink) -> list[str]:
    """Draw a bar for each solution; where the reference was not timed there is none."""
    ends = [
        max(each.speedup, *(each.speedup_interval or ())) if each.speedup_interval else each.speedup
        for each in chart.solutions
        if each.speedup
    ]
    largest = max([1.0, *ends])
    marked = _marked(chart)
    margin = max(map(len, marked))
    texts = [_bar_text(each) for each in chart.solutions]
    room = max(_LEAST_BAR, width - margin - max(map(len, texts)) - 6)
    lines = [f"speedup over the reference ({ink.shade} 95% interval, {ink.one} as fast)"]
    for name, text, each in zip(marked, texts, chart.solutions, strict=True):
        drawn = bar(
            each.speedup or 0.0, each.speedup_interval, largest=largest, width=room, ink=ink
        )
        lines.append(f"{name:{margin}}  {drawn}  {text}".rstrip())
    return lines


def _bar_text(chart: SolutionChart) -> str:
    failed = f", {chart.failed} failed" if chart.failed else ""
    if chart.violations:
        failed += f", {count_text(chart.violations, 'violation')}"
    if not chart.workloads:
        return f"none passed{failed}"
    if chart.speedup is None:
        return f"no reference time{failed}"
    return speedup_text(chart.speedup, chart.speedup_interval) + failed


def _marked(chart: DefinitionChart) -> list[str]:
    """Put before each solution the letter that stands for it among the points."""
    return [
        f"{_mark(index)} {printable(each.solution)}" for index, each in enumerate(chart.solutions)
    ]


def _mark(index: int) -> str:
    return _MARKS[index] if index < len(_MARKS) else "?"


def _sizes(chart: DefinitionChart, width: int, ink: Ink) -> list[str]:
    """Draw latency against size, where there are several sizes; the widest that fit."""
    by_axes: dict[tuple[tuple[str, int], ...], int] = {
        tuple(point.axes.items()): point.size
        for each in chart.solutions
        for point in each.workloads
    }
    sizes = sorted(by_axes, key=lambda axes: (by_axes[axes], axes))
    if len(sizes) < 2:  # noqa: PLR2004  # one size is no curve
        return []
    labels = [_size_label(axes) for axes in sizes]
    room = max(1, (width - 14) // (max(map(len, labels)) + 2))
    sizes, labels = sizes[-room:], labels[-room:]
    drawn = scatter(_points(chart, sizes), labels, ink=ink)
    names = ", ".join(name for name, _ in sizes[0]) or "size"
    return [f"latency against {names} (logarithmic; {_REFERENCE} is the reference)", *drawn]


def _size_label(axes: tuple[tuple[str, int], ...]) -> str:
    return "x".join(str(value) for _, value in axes)


def _points(
    chart: DefinitionChart, sizes: Sequence[tuple[tuple[str, int], ...]]
) -> dict[str, dict[int, float]]:
    columns = {axes: index for index, axes in enumerate(sizes)}
    points: dict[str, dict[int, float]] = {}
    references: dict[int, list[float]] = {}
    for index, each in enumerate(chart.solutions):
        for point in each.workloads:
            column = columns.get(tuple(point.axes.items()))
            if column is None:
                continue
            points.setdefault(_mark(index), {})[column] = point.latency_ms
            if point.reference_latency_ms:
                references.setdefault(column, []).append(point.reference_latency_ms)
    points[_REFERENCE] = {
        column: statistics.median(times_ms) for column, times_ms in references.items()
    }
    return points


def _sparks(chart: DefinitionChart, width: int, ink: Ink) -> list[str]:
    """Draw the samples of each solution's largest workload that has some."""
    drawn: list[tuple[str, str, str]] = []
    for name, each in zip(_marked(chart), chart.solutions, strict=True):
        kept = [point for point in each.workloads if point.samples_ms]
        if kept:
            samples_ms = kept[-1].samples_ms or ()
            axes = ", ".join(f"{axis}={value}" for axis, value in kept[-1].axes.items())
            ends = f"{latency_text(min(samples_ms))} to {latency_text(max(samples_ms))}"
            drawn.append((name, f"{ends}  {axes}", kept[-1].workload))
    if not drawn:
        return []
    margin = max(len(name) for name, _, _ in drawn)
    room = max(_LEAST_BAR, width - margin - max(len(text) for _, text, _ in drawn) - 6)
    samples = {
        (name, point.workload): point.samples_ms or ()
        for name, each in zip(_marked(chart), chart.solutions, strict=True)
        for point in each.workloads
    }
    longest = max(len(samples[name, workload]) for name, _, workload in drawn)
    lines = [f"samples in the order they were taken ({count_text(longest, 'sample')} at most)"]
    for name, text, workload in drawn:
        cells = min(room, longest)
        line = sparkline(samples[name, workload], width=cells, ink=ink)
        lines.append(f"{name:{margin}}  {line:{cells}}  {text}".rstrip())
    return lines
