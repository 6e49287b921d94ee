"""The roofline of a definition: what was reached, under the ceilings that were measured with it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashinfer_bench.data.wording import axes_text
from flashinfer_bench.report.page.drawing import MOST_SERIES
from flashinfer_bench.report.page.figures import (
    SHAPES,
    NamedLine,
    Numbers,
    Plot,
    PlotPoint,
    PlotSeries,
    Scale,
    logarithmic,
)
from flashinfer_bench.report.page.findings import of_fractions
from flashinfer_bench.report.page.names import slug
from flashinfer_bench.text.numbers import NOTHING, percent_text, rounded

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from flashinfer_bench.report.page.content import RecordedJob

_GIGA = 1e9
_FLOPS, _BYTES = "_gflop_per_s", "_gb_per_s"
_NAME_HEIGHT = 7.0
"""Per cent of the plot that a name takes."""
_ROOM_FOR_A_NAME = 35.0
"""Per cent of the plot's width that the name of a slope may take."""
_ABOVE = "What lies above a ceiling moves less than was counted, or beats what the ceiling was measured with."


@dataclass(frozen=True, slots=True)
class _Reached:
    """One job under the roof; the units are those of the axes."""

    solution: str
    axes: Mapping[str, int]
    x: float
    rate: float
    """In units of 1e9 a second."""
    fraction: float | None


def why_none(jobs: Sequence[RecordedJob]) -> str:
    """Say why nothing can be drawn of jobs that passed; empty where something can, or nothing passed."""
    if any(_bandwidth(job) for job in _under_ceilings(jobs)):
        return ""
    if _under_ceilings(jobs):
        return "No roofline: the traces do not say how many bytes a call moves."
    return "No roofline: the traces hold no ceilings that were measured with them." if jobs else ""


def _under_ceilings(jobs: Sequence[RecordedJob]) -> list[RecordedJob]:
    return [
        job
        for job in jobs
        if job.row.latency_ms
        and job.performance
        and any(rate > 0 for rate in (job.performance.ceilings or {}).values())
    ]


def roofline(jobs: Sequence[RecordedJob], order: Sequence[str], best: str | None) -> Plot | None:
    """Draw what was reached: operations against intensity, or bandwidth where no operations are declared."""
    timed = _under_ceilings(jobs)
    ceilings: dict[str, float] = {}
    for job in timed:
        for name, rate in (job.performance.ceilings or {}).items() if job.performance else ():
            ceilings[name] = max(rate, ceilings.get(name, 0.0))
    arithmetic = [each for job in timed if (each := _operations(job)) is not None]
    if arithmetic:
        return _arithmetic_plot(arithmetic, ceilings, order, best)
    moved = [each for job in timed if (each := _bandwidth(job)) is not None]
    return _memory_plot(moved, ceilings, order, best) if moved else None


def _operations(job: RecordedJob) -> _Reached | None:
    found = job.performance
    if found is None or not found.flops or not found.bytes_moved:
        return None
    rate = found.flops / (found.latency_ms * 1e-3) / _GIGA
    intensity = found.flops / found.bytes_moved
    return _Reached(job.row.solution, job.row.axes, intensity, rate, found.sol_fraction)


def _bandwidth(job: RecordedJob) -> _Reached | None:
    found = job.performance
    if found is None or not found.bytes_moved:
        return None
    rate = found.bytes_moved / (found.latency_ms * 1e-3) / _GIGA
    return _Reached(job.row.solution, job.row.axes, found.bytes_moved, rate, found.sol_fraction)


def _arithmetic_plot(
    reached: Sequence[_Reached],
    ceilings: Mapping[str, float],
    order: Sequence[str],
    best: str | None,
) -> Plot | None:
    slopes = {name: rate for name, rate in ceilings.items() if name.endswith(_BYTES) and rate > 0}
    peaks = {name: rate for name, rate in ceilings.items() if name.endswith(_FLOPS) and rate > 0}
    ridges = [peak / slope for peak in peaks.values() for slope in slopes.values()]
    x = logarithmic([*(each.x for each in reached), *ridges])
    bounds = [*peaks.values()] or [rate * each.x for rate in slopes.values() for each in reached]
    y = logarithmic([*(each.rate for each in reached), *bounds])
    if x is None or y is None:
        return None
    steepest = max(slopes.values(), default=math.inf)
    rules = _roofs(peaks, lambda rate: x.at(rate / steepest), y)
    rules += _slopes(slopes, max(peaks.values(), default=y.high), x, y)
    return Plot(
        key="roofline",
        title="Roofline",
        finding=_finding(reached),
        description="Operations a second against operations a byte, both logarithmic, under the ceilings measured "
        "on the same device: the closer to a ceiling, the less is left to gain.",
        x_name="operations a byte",
        y_name="operations a second",
        x_ticks=x.ticks(lambda value: f"{value:g}"),
        y_ticks=y.ticks(_flops_text, most=6),
        series=_series(reached, (x, y), order, best, _flops_text),
        numbers=_numbers(reached, "reached", _flops_text),
        rules=tuple(rules),
        remark=_remark(reached, "Ceilings: measured on this device."),
    )


def _memory_plot(
    reached: Sequence[_Reached],
    ceilings: Mapping[str, float],
    order: Sequence[str],
    best: str | None,
) -> Plot | None:
    roofs = {name: rate for name, rate in ceilings.items() if name.endswith(_BYTES) and rate > 0}
    x = logarithmic(each.x for each in reached)
    y = logarithmic([*(each.rate for each in reached), *roofs.values()])
    if x is None or y is None:
        return None
    return Plot(
        key="roofline",
        title="Roofline of memory",
        finding=_finding(reached),
        description="Bytes a second against the bytes a call moves at least, both logarithmic, under the bandwidth "
        "measured on the same device: the closer to it, the less is left to gain.",
        x_name="bytes a call moves at least",
        y_name="bandwidth",
        x_ticks=x.ticks(bytes_text),
        y_ticks=y.ticks(_bandwidth_text, most=6),
        series=_series(reached, (x, y), order, best, _bandwidth_text),
        numbers=_numbers(reached, "bandwidth", _bandwidth_text),
        rules=tuple(_roofs(roofs, lambda _: 0.0, y)),
        remark=_remark(
            reached,
            "Ceilings: measured on this device. No compute roof: the definition declares no operation count.",
        ),
    )


def _finding(reached: Sequence[_Reached]) -> str:
    return of_fractions([(each.fraction, each.solution, each.axes) for each in reached])


def _remark(reached: Sequence[_Reached], measured: str) -> str:
    count = len({each.solution for each in reached})
    return " ".join(
        part
        for part, is_so in (
            (measured, True),
            (_ABOVE, any((each.fraction or 0) > 1 for each in reached)),
            (f"The {MOST_SERIES} fastest of {count} are drawn.", count > MOST_SERIES),
        )
        if is_so
    )


def _series(
    reached: Sequence[_Reached],
    scales: tuple[Scale, Scale],
    order: Sequence[str],
    best: str | None,
    text: Callable[[float], str],
) -> tuple[PlotSeries, ...]:
    x, y = scales
    names = [name for name in order if any(each.solution == name for each in reached)][:MOST_SERIES]
    return tuple(
        PlotSeries(
            name,
            slug(name),
            tuple(
                PlotPoint(
                    x.at(each.x),
                    y.at(each.rate),
                    f"{name}, {axes_text(each.axes)}: {text(each.rate)}",
                )
                for each in sorted(reached, key=lambda found: found.x)
                if each.solution == name
            ),
            shape=SHAPES[index % len(SHAPES)],
            is_best=name == best,
            is_joined=False,
        )
        for index, name in enumerate(names)
    )


def _numbers(reached: Sequence[_Reached], head: str, text: Callable[[float], str]) -> Numbers:
    return Numbers(
        ("solution", "workload", head, "of the speed of light"),
        tuple(
            (
                each.solution,
                axes_text(each.axes),
                text(each.rate),
                NOTHING if each.fraction is None else percent_text(each.fraction),
            )
            for each in reached
        ),
    )


def _roofs(
    ceilings: Mapping[str, float], begin: Callable[[float], float], y: Scale
) -> list[NamedLine]:
    """Draw a line for each ceiling; those too close for a name each share one above them."""
    groups: list[list[tuple[str, float]]] = []
    for name, rate in sorted(ceilings.items(), key=lambda pair: -pair[1]):
        if groups and y.at(groups[-1][0][1]) - y.at(rate) < _NAME_HEIGHT:
            groups[-1].append((name, rate))
        else:
            groups.append([(name, rate)])
    return [
        NamedLine(
            f"{10 * begin(rate):g},{1000 - 10 * y.at(rate):g} 1000,{1000 - 10 * y.at(rate):g}",
            _roof_names(group) if place == 0 else "",
            100.0,
            y.at(rate),
        )
        for group in groups
        for place, (_, rate) in enumerate(group)
        if place == 0 or rate != group[place - 1][1]
    ]


def _roof_names(group: Sequence[tuple[str, float]]) -> str:
    by_rate: dict[str, list[str]] = {}
    for name, rate in group:
        text = _flops_text(rate) if name.endswith(_FLOPS) else _bandwidth_text(rate)
        by_rate.setdefault(text, []).append(name.removesuffix(_FLOPS).removesuffix(_BYTES))
    return ", ".join(f"{' and '.join(names)}: {text}" for text, names in by_rate.items())


def _slopes(ceilings: Mapping[str, float], peak: float, x: Scale, y: Scale) -> list[NamedLine]:
    """Draw a bandwidth as a slope up to the highest peak: operations a byte times bytes a second.

    All names stand in one line above the steepest, where no point can lie.
    """
    text = _roof_names(sorted(ceilings.items(), key=lambda pair: -pair[1]))
    rules: list[NamedLine] = []
    for rate in sorted(set(ceilings.values()), reverse=True):
        ends = [max(x.low, y.low / rate), min(x.high, peak / rate)]
        begin, end = ((x.at(each), y.at(each * rate)) for each in ends)
        points = " ".join(f"{10 * a:g},{1000 - 10 * b:g}" for a, b in (begin, end))
        rules.append(_named_slope(points, "" if rules else text, begin, end))
    return rules


def _named_slope(
    points: str, text: str, begin: tuple[float, float], end: tuple[float, float]
) -> NamedLine:
    """Put the name left of the slope's middle where it has room there, else where the slope ends."""
    if end[0] < _ROOM_FOR_A_NAME:
        return NamedLine(points, text, *end, anchor="start")
    at = max((begin[0] + end[0]) / 2, _ROOM_FOR_A_NAME)
    share = (at - begin[0]) / ((end[0] - begin[0]) or 1.0)
    return NamedLine(points, text, round(at, 2), round(begin[1] + share * (end[1] - begin[1]), 2))


def _flops_text(giga: float) -> str:
    """Write operations a second.

    >>> _flops_text(0.5), _flops_text(779804.3)
    ('0.500 GFLOP/s', '780 TFLOP/s')
    """
    return _scaled(giga, "FLOP/s")


def _bandwidth_text(giga: float) -> str:
    return _scaled(giga, "B/s")


def _scaled(giga: float, unit: str) -> str:
    for prefix, size in (("P", 1e6), ("T", 1e3)):
        if giga >= size:
            return f"{rounded(giga / size)} {prefix}{unit}"
    return f"{rounded(giga)} G{unit}"


def bytes_text(count: float) -> str:
    """Write a number of bytes.

    >>> bytes_text(24576), bytes_text(3e9)
    ('24.6 kB', '3.00 GB')
    """
    for prefix, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if count >= size:
            return f"{rounded(count / size)} {prefix}B"
    return f"{count:.0f} B"
