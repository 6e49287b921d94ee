"""Recorded traces as charts in a terminal: speedups, latency against size, samples one after another."""

from __future__ import annotations

import math
import statistics
import string
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flashinfer_bench.data.wording import axes_text
from flashinfer_bench.report.charts import (
    ASCII,
    COLLISION,
    UNICODE,
    Ink,
    bar,
    room_for,
    scatter,
    sparkline,
)
from flashinfer_bench.report.standing import left_out_blocks
from flashinfer_bench.stats.means import geometric_mean, mean_interval
from flashinfer_bench.text.numbers import (
    count_text,
    latency_text,
    speedup_text,
)
from flashinfer_bench.text.tables import (
    Block,
    Page,
    columns_of,
    fitted,
    heading,
    in_ascii,
    padded,
    paragraph,
    printable,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from flashinfer_bench.data.rows import TraceRow
    from flashinfer_bench.report.standing import LeftOut, Standing, Tally
    from flashinfer_bench.stats.intervals import Interval

    # Gives, by trace id, milliseconds by participant: of the traces of one definition.
    SamplesOf = Callable[[str, Sequence[str]], Mapping[str, Mapping[str, Sequence[float]]]]

WIDTH = 100
Lengths = tuple[int, ...]
"""Of the axes that vary."""
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
    page = fitted((*blocks, *left_out_blocks(left_out)), width)
    return tuple(replace(each, text=in_ascii(each.text)) for each in page) if is_ascii else page


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
        max(each.speedup, *(each.speedup_interval or (each.speedup,)))
        for each in chart.solutions
        if each.speedup
    ]
    largest = max([1.0, *ends])

    def draw(index: int, room: int) -> str:
        each = chart.solutions[index]
        return bar(each.speedup or 0.0, each.speedup_interval, largest=largest, width=room, ink=ink)

    rows = list(zip(_marked(chart), map(_bar_text, chart.solutions), strict=True))
    title = f"speedup over the reference ({ink.shade} 95% interval within one pair of processes, {ink.one} as fast)"
    return [title, *_beside(rows, draw, width)]


def _beside(
    rows: Sequence[tuple[str, str]], draw: Callable[[int, int], str], width: int
) -> list[str]:
    """Put what is drawn between name and text; below them where that leaves too little room."""
    margin, texts = (max(map(columns_of, column)) for column in zip(*rows, strict=True))
    room = width - margin - texts - 6
    lines = []
    for index, (name, text) in enumerate(rows):
        if room >= _LEAST_BAR:
            lines.append(f"{padded(name, margin)}  {draw(index, room)}  {text}".rstrip())
        else:
            lines += [f"{name}  {text}", f"  {draw(index, width - 4)}".rstrip()]
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
    """Draw latency against size, where there are several sizes; as many as fit, from the least to the largest."""
    names = _axes_that_vary(chart)
    by_size = {
        _lengths(point, names): point.size for each in chart.solutions for point in each.workloads
    }
    sizes = sorted(by_size, key=lambda lengths: (by_size[lengths], lengths))
    if len(sizes) < 2:  # noqa: PLR2004  # one size is no curve
        return []
    shown = spread(sizes, room_for(list(map(_size_label, sizes)), width - 2))
    drawn = scatter(_points(chart, names, shown), list(map(_size_label, shown)), ink=ink)
    title = f"latency against {', '.join(names)} (logarithmic, {_REFERENCE} the reference"
    if any(COLLISION in line for line in drawn):
        title += f", {COLLISION} several"
    if len(shown) < len(sizes):
        title += f"; {len(shown)} of {len(sizes)} sizes"
    return [f"{title})", *drawn]


def spread(sizes: Sequence[Lengths], count: int) -> list[Lengths]:
    """Take so many sizes evenly, with both ends.

    >>> spread([(1,), (2,), (4,), (8,), (16,)], 3)
    [(1,), (4,), (16,)]
    """
    if count >= len(sizes):
        return list(sizes)
    if count == 1:
        return [sizes[-1]]
    last = len(sizes) - 1
    return [sizes[round(last * index / (count - 1))] for index in range(count)]


def _axes_that_vary(chart: DefinitionChart) -> tuple[str, ...]:
    points = [point for each in chart.solutions for point in each.workloads]
    names = dict.fromkeys(name for point in points for name in point.axes)
    return tuple(name for name in names if len({point.axes.get(name) for point in points}) > 1)


def _lengths(point: SizedLatency, names: Sequence[str]) -> Lengths:
    return tuple(point.axes.get(name, 0) for name in names)


def _size_label(lengths: Lengths) -> str:
    return "x".join(map(str, lengths))


def _points(
    chart: DefinitionChart, names: Sequence[str], sizes: Sequence[Lengths]
) -> dict[str, dict[int, float]]:
    """Give times by mark and column: the median where several workloads are of one size."""
    columns = {lengths: index for index, lengths in enumerate(sizes)}
    times: defaultdict[str, defaultdict[int, list[float]]]
    times = defaultdict(lambda: defaultdict(list))
    for index, each in enumerate(chart.solutions):
        for point in each.workloads:
            column = columns.get(_lengths(point, names))
            if column is None:
                continue
            times[_mark(index)][column].append(point.latency_ms)
            if point.reference_latency_ms:
                times[_REFERENCE][column].append(point.reference_latency_ms)
    marks = sorted(times, key=lambda mark: mark == _REFERENCE)
    return {
        mark: {at: statistics.median(each) for at, each in times[mark].items()} for mark in marks
    }


def _sparks(chart: DefinitionChart, width: int, ink: Ink) -> list[str]:
    """Draw the samples of each solution's largest workload that has some."""
    found: list[tuple[str, SizedLatency]] = []
    for name, each in zip(_marked(chart), chart.solutions, strict=True):
        found += [(name, point) for point in each.workloads if point.samples_ms][-1:]
    if not found:
        return []
    samples = [point.samples_ms or () for _, point in found]
    longest = max(map(len, samples))

    def draw(index: int, room: int) -> str:
        cells = min(room, longest)
        return sparkline(samples[index], width=cells, ink=ink).ljust(cells)

    rows = [(name, _ends_text(point)) for name, point in found]
    title = f"samples in the order they were taken ({count_text(longest, 'sample')} at most)"
    return [title, *_beside(rows, draw, width)]


def _ends_text(point: SizedLatency) -> str:
    samples_ms = point.samples_ms or ()
    axes = axes_text(point.axes, none="")
    return f"{latency_text(min(samples_ms))} to {latency_text(max(samples_ms))}  {axes}"
