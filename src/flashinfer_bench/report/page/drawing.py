"""What is drawn of a definition on one kind of hardware: speedups, latency against size, fast_p, samples."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from flashinfer_bench.data.wording import axes_text
from flashinfer_bench.report.page import findings
from flashinfer_bench.report.page.figures import (
    SHAPES,
    Bar,
    Bars,
    Numbers,
    Plot,
    PlotPoint,
    PlotSeries,
    Scale,
    logarithmic,
    short,
)
from flashinfer_bench.report.page.names import slug
from flashinfer_bench.report.scores.measures import Beyond, fast_p
from flashinfer_bench.text.numbers import (
    NOTHING,
    count_text,
    latency_text,
    percent_text,
    rounded,
    speedup_text,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flashinfer_bench.report.standing import Tally
    from flashinfer_bench.report.visualize import DefinitionChart, SizedLatency, SolutionChart

MOST_SERIES = 12
"""More lines than that cannot be told apart; the tables have them all."""
_CELLS = 120
_LEAST_SIZES = 2


def speedup_bars(chart: DefinitionChart, best: str | None) -> Bars | None:
    """Draw every solution's speedup over the reference with its interval."""
    drawn = [each for each in chart.solutions if each.speedup]
    if not drawn:
        return None
    largest = max(max(each.speedup or 0, *(each.speedup_interval or (0,))) for each in drawn)
    scale = Scale(0.0, max(1.0, largest) * 1.02)
    return Bars(
        key="speedup",
        title="Speedup over the reference",
        finding=findings.of_speedups(drawn),
        description=f"One bar for each of {count_text(len(drawn), 'solution')}, the fastest first; "
        "the dashed line across its end is the 95% interval within one pair of processes. "
        "Above 1x a solution is faster than the reference.",
        x_name="geometric mean over workloads; dashed: the reference",
        bars=tuple(_speedup_bar(each, scale, best) for each in drawn),
        x_ticks=scale.ticks(lambda value: f"{value:g}x"),
        numbers=Numbers(
            ("solution", "speedup (95%)", "workloads"),
            tuple(
                (
                    each.solution,
                    speedup_text(each.speedup, each.speedup_interval),
                    str(len(each.workloads)),
                )
                for each in drawn
            ),
        ),
        one=scale.at(1.0),
    )


def _speedup_bar(chart: SolutionChart, scale: Scale, best: str | None) -> Bar:
    low, high = chart.speedup_interval or (chart.speedup or 0.0,) * 2
    failed = f", {chart.failed} failed" if chart.failed else ""
    return Bar(
        name=chart.solution,
        key=slug(chart.solution),
        text=speedup_text(chart.speedup, chart.speedup_interval) + failed,
        length=scale.at(chart.speedup or 0.0),
        low=scale.at(low),
        high=scale.at(high),
        is_best=chart.solution == best,
        has_interval=chart.speedup_interval is not None,
    )


def latency_plot(chart: DefinitionChart, best: str | None) -> Plot | None:
    """Draw latency against size, where there are several sizes."""
    points = [point for each in chart.solutions for point in each.workloads]
    if len({point.size for point in points}) < _LEAST_SIZES:
        return None
    x = logarithmic(point.size for point in points)
    y = logarithmic(
        time for point in points for time in (point.latency_ms, point.reference_latency_ms or 0.0)
    )
    if x is None or y is None:
        return None
    shown = _shown(chart)
    series = [_latencies(each, index, x, y, best) for index, each in enumerate(shown)]
    return Plot(
        key="latency",
        title="Latency against size",
        finding=findings.of_latencies(chart.solutions),
        description="Median time of one call against the size of the workload, both logarithmic: "
        "a line for each solution, dashed for the reference; lower is faster.",
        x_name=_size_name(points),
        y_name="latency",
        x_ticks=x.ticks(_size_text, is_whole=True),
        y_ticks=y.ticks(latency_text, most=6),
        series=(*series, _reference(points, x, y)),
        numbers=_latency_numbers(chart, points),
        remark=_left_out(chart),
    )


def _latencies(
    chart: SolutionChart, index: int, x: Scale, y: Scale, best: str | None
) -> PlotSeries:
    marks = tuple(
        PlotPoint(
            x.at(point.size),
            y.at(point.latency_ms),
            f"{chart.solution}, {axes_text(point.axes)}: {latency_text(point.latency_ms)}",
        )
        for point in chart.workloads
        if point.latency_ms > 0
    )
    return PlotSeries(
        chart.solution,
        slug(chart.solution),
        marks,
        shape=SHAPES[index % len(SHAPES)],
        is_best=chart.solution == best,
    )


def _reference(points: Sequence[SizedLatency], x: Scale, y: Scale) -> PlotSeries:
    times: dict[int, list[float]] = {}
    for point in points:
        if point.reference_latency_ms:
            times.setdefault(point.size, []).append(point.reference_latency_ms)
    marks = tuple(
        PlotPoint(
            x.at(size),
            y.at(statistics.median(found)),
            f"reference, {_size_text(size)}: {latency_text(statistics.median(found))}",
        )
        for size, found in sorted(times.items())
    )
    return PlotSeries("reference", "reference", marks, is_reference=True)


def _latency_numbers(chart: DefinitionChart, points: Sequence[SizedLatency]) -> Numbers:
    """Give a line a workload, a column a solution."""
    workloads = {point.workload: point for point in sorted(points, key=lambda each: each.size)}
    times = {
        (each.solution, point.workload): latency_text(point.latency_ms)
        for each in chart.solutions
        for point in each.workloads
    }
    names = [each.solution for each in chart.solutions if each.workloads]
    return Numbers(
        ("workload", *names),
        tuple(
            (axes_text(point.axes), *(times.get((name, uuid), NOTHING) for name in names))
            for uuid, point in workloads.items()
        ),
    )


def fast_plot(
    chart: DefinitionChart, tallies: Mapping[str, Tally], best: str | None
) -> Plot | None:
    """Draw the share of workloads on which each solution is right and at least so fast."""
    ratios = {
        each.solution: sorted(point.speedup for point in each.workloads if point.speedup)
        for each in chart.solutions
    }
    x = logarithmic([1.0, *(ratio for found in ratios.values() for ratio in found)])
    if x is None or not any(ratios.values()):
        return None
    y = Scale(0.0, 1.0)
    drawn = [each for each in chart.solutions if ratios[each.solution]][:MOST_SERIES]
    attempted = {each.solution: tallies[each.solution].workload_count for each in drawn}
    series = tuple(
        _steps(
            each.solution,
            ratios[each.solution],
            attempted[each.solution],
            scales=(x, y),
            shape=SHAPES[index % len(SHAPES)],
            is_best=each.solution == best,
        )
        for index, each in enumerate(drawn)
    )
    return Plot(
        key="fast",
        title="fast_p",
        finding=findings.of_shares(
            best if best in attempted else drawn[0].solution, ratios, attempted
        ),
        description="Share of the workloads attempted on which a solution is right and at least p times "
        "as fast as the reference, against p: the further up and right, the better.",
        x_name="p: times as fast as the reference",
        y_name="share of workloads",
        x_ticks=x.ticks(lambda value: f"{value:g}x"),
        y_ticks=Scale(0.0, 100.0).ticks(lambda value: f"{value:g}%", most=5),
        series=series,
        numbers=_fast_numbers(drawn, ratios, attempted),
        remark=_left_out(chart),
    )


def _steps(
    name: str,
    ratios: Sequence[float],
    attempted: int,
    *,
    scales: tuple[Scale, Scale],
    shape: str,
    is_best: bool,
) -> PlotSeries:
    """Walk down a stair: at each ratio one workload less is that fast."""
    x, y = scales
    corners = [(0.0, y.at(len(ratios) / attempted))]
    marks: list[PlotPoint] = []
    for passed, ratio in enumerate(ratios):
        high, low = ((len(ratios) - count) / attempted for count in (passed, passed + 1))
        corners += [(x.at(ratio), y.at(high)), (x.at(ratio), y.at(low))]
        text = f"{name}: {percent_text(high)} at least {speedup_text(ratio)}"
        marks.append(PlotPoint(x.at(ratio), y.at(high), text))
    corners.append((100.0, y.at(0.0)))
    return PlotSeries(
        name,
        slug(name),
        tuple(marks),
        shape=shape,
        is_best=is_best,
        line=tuple(corners),
    )


def _fast_numbers(
    drawn: Sequence[SolutionChart],
    ratios: Mapping[str, Sequence[float]],
    attempted: Mapping[str, int],
) -> Numbers:
    thresholds = (0.5, 1.0, 1.5, 2.0, 4.0, 8.0)
    return Numbers(
        ("solution", *(f"≥ {each:g}x" for each in thresholds), "workloads"),
        tuple(
            (
                each.solution,
                *(
                    percent_text(_share(ratios[each.solution], attempted[each.solution], p))
                    for p in thresholds
                ),
                str(attempted[each.solution]),
            )
            for each in drawn
        ),
    )


def _share(ratios: Sequence[float], attempted: int, threshold: float) -> float:
    failed = [None] * (attempted - len(ratios))
    return fast_p({"": [*ratios, *failed]}, threshold, Beyond.AT_LEAST)


def sample_bars(chart: DefinitionChart, best: str | None) -> Bars | None:
    """Draw how each solution's samples are distributed, on the largest workload that most have samples of."""
    found = _samples(chart)
    if found is None:
        return None
    axes, samples = found
    drawn = [each.solution for each in chart.solutions if each.solution in samples][:MOST_SERIES]
    scale = logarithmic(
        _without_tails([time for name in drawn for time in samples[name]]), margin=1.02
    )
    if scale is None:
        return None
    return Bars(
        key="samples",
        title=f"Distribution of samples, {axes}",
        finding=findings.of_samples(drawn, samples),
        description="How often each time was measured, a histogram a solution on one logarithmic scale; "
        "what is beyond its ends is counted at the edge.",
        x_name="time of one call",
        bars=tuple(
            Bar(
                name=name,
                key=slug(name),
                text=_sample_text(samples[name]),
                length=None,
                is_best=name == best,
                cells=_cells(samples[name], scale),
            )
            for name in drawn
        ),
        x_ticks=scale.ticks(latency_text),
        numbers=Numbers(
            (
                "solution",
                "samples",
                "fastest",
                "first quartile",
                "median",
                "third quartile",
                "slowest",
            ),
            tuple((name, *_quantiles(samples[name])) for name in drawn),
        ),
        row=46,
    )


def _samples(chart: DefinitionChart) -> tuple[str, dict[str, tuple[float, ...]]] | None:
    by_workload: dict[str, dict[str, tuple[float, ...]]] = {}
    points: dict[str, SizedLatency] = {}
    for each in chart.solutions:
        for point in each.workloads:
            if point.samples_ms:
                by_workload.setdefault(point.workload, {})[each.solution] = point.samples_ms
                points[point.workload] = point
    if not by_workload:
        return None
    workload = max(by_workload, key=lambda uuid: (len(by_workload[uuid]), points[uuid].size, uuid))
    return axes_text(points[workload].axes), by_workload[workload]


def _without_tails(times_ms: list[float]) -> list[float]:
    times_ms.sort()
    cut = len(times_ms) // 100
    return times_ms[cut : len(times_ms) - cut]


def _cells(times_ms: Sequence[float], scale: Scale) -> tuple[float, ...]:
    counts = [0] * _CELLS
    for time in times_ms:
        counts[min(_CELLS - 1, int(scale.at(time) * _CELLS / 100))] += 1
    largest = max(counts)
    return tuple(round(100 * count / largest, 1) for count in counts)


def _sample_text(times_ms: Sequence[float]) -> str:
    return (
        f"median {latency_text(statistics.median(times_ms))}, {count_text(len(times_ms), 'sample')}"
    )


def _quantiles(times_ms: Sequence[float]) -> tuple[str, ...]:
    median = statistics.median(times_ms)
    quarters = (
        statistics.quantiles(times_ms, n=4)
        if len(times_ms) > 1
        else [times_ms[0], median, times_ms[0]]
    )
    times = (min(times_ms), quarters[0], median, quarters[2], max(times_ms))
    return (str(len(times_ms)), *map(latency_text, times))


def _shown(chart: DefinitionChart) -> list[SolutionChart]:
    return [each for each in chart.solutions if each.workloads][:MOST_SERIES]


def _left_out(chart: DefinitionChart) -> str:
    count = sum(bool(each.workloads) for each in chart.solutions)
    return f"The {MOST_SERIES} fastest of {count} are drawn." if count > MOST_SERIES else ""


def _size_name(points: Sequence[SizedLatency]) -> str:
    names = {tuple(point.axes) for point in points}
    axes = next(iter(names)) if len(names) == 1 else ()
    return axes[0] if len(axes) == 1 else " × ".join(axes) or "size"


def _size_text(size: float) -> str:
    """Write a size as people say it.

    >>> _size_text(4096.0), _size_text(2_000_000.0), _size_text(300_000_000.0)
    ('4096', '2M', '300M')
    """
    for unit, factor in (("G", 1e9), ("M", 1e6)):
        if size >= factor:
            return short(f"{rounded(size / factor)} {unit}").replace(" ", "")
    return f"{size:.0f}"
