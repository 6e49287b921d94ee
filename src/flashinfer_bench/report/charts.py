"""Charts made of characters: bars with intervals, sparklines, points on a logarithmic scale."""

from __future__ import annotations

import itertools
import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashinfer_bench.text.numbers import latency_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flashinfer_bench.stats.intervals import Interval

COLLISION = "*"
_PLOT_ROWS = 9
_LEAST_STEP = 6
_LABEL = 9  # the widest tick, "1.23 ms", and the axis


@dataclass(frozen=True, slots=True)
class Ink:
    """Which characters a chart is drawn with."""

    solid: str
    shade: str
    one: str
    levels: str
    axis: str
    corner: str
    floor: str


UNICODE = Ink("█", "▒", "┊", "▁▂▃▄▅▆▇█", "│", "└", "─")
ASCII = Ink("#", "+", "|", "_.-=+*%#", "|", "+", "-")


def bar(
    value: float, interval: Interval | None, *, largest: float, width: int, ink: Ink = UNICODE
) -> str:
    """Draw a bar of a ratio: solid up to where its interval begins, shaded to where that ends.

    A mark stands where 1 is, unless the bar covers it.

    >>> bar(2.0, (1.5, 2.5), largest=4.0, width=16)
    '██████▒▒▒▒      '
    >>> bar(0.5, None, largest=4.0, width=16)
    '██ ┊            '
    """
    if not 0 < largest < math.inf or not math.isfinite(value):
        return " " * width
    low, high = interval or (value, value)
    solid, end = (round(width * min(each, largest) / largest) for each in (low, high))
    shaded = max(0, end - solid)
    cells = list((ink.solid * solid + ink.shade * shaded).ljust(width))
    one = max(0, round(width / largest) - 1)
    if one < width and cells[one] == " ":
        cells[one] = ink.one
    return "".join(cells)


def sparkline(values: Sequence[float], *, width: int, ink: Ink = UNICODE) -> str:
    """Draw values in their order, the smallest lowest; each cell is the median of its share of them.

    >>> sparkline([1, 2, 3, 4, 5, 6, 7, 8], width=8)
    '▁▂▃▄▅▆▇█'
    >>> sparkline([3, 3], width=8)
    '▁▁'
    """
    if not values:
        return ""
    count = min(width, len(values))
    edges = [len(values) * index // count for index in range(count + 1)]
    cells = [statistics.median(values[begin:end]) for begin, end in itertools.pairwise(edges)]
    low, span = min(cells), max(cells) - min(cells)
    top = len(ink.levels) - 1
    return "".join(ink.levels[round(top * (cell - low) / span) if span else 0] for cell in cells)


def scatter(
    points_ms: Mapping[str, Mapping[int, float]], columns: Sequence[str], *, ink: Ink = UNICODE
) -> list[str]:
    """Draw times on a logarithmic scale, a column for each size; what falls together is a star.

    `points_ms` gives, by the character of a series, milliseconds by index of the column.
    """
    times = [time for series in points_ms.values() for time in series.values() if time > 0]
    if not times:
        return []
    low, high = math.log(min(times)), math.log(max(times))
    step = _step(columns)
    grid = [[" "] * (step * len(columns)) for _ in range(_PLOT_ROWS)]
    for mark, series in points_ms.items():
        for column, time in series.items():
            if time > 0:
                row = _row(math.log(time), low, high)
                place = step * column + step // 2
                grid[row][place] = mark if grid[row][place] in {" ", mark} else COLLISION
    return _framed(grid, columns, step, (low, high), ink)


def room_for(columns: Sequence[str], width: int) -> int:
    """Say how many columns with such names fit beside the axis."""
    return max(1, (width - _LABEL) // _step(columns))


def _step(columns: Sequence[str]) -> int:
    return max(_LEAST_STEP, *(len(name) + 2 for name in columns))


def _row(value: float, low: float, high: float) -> int:
    if high <= low:
        return _PLOT_ROWS // 2
    return round((_PLOT_ROWS - 1) * (high - value) / (high - low))


def _framed(
    grid: Sequence[Sequence[str]],
    columns: Sequence[str],
    step: int,
    bounds: tuple[float, float],
    ink: Ink,
) -> list[str]:
    low, high = bounds
    middle = _PLOT_ROWS // 2
    ticks = {0: high, middle: (low + high) / 2, _PLOT_ROWS - 1: low}
    if high <= low:
        ticks = {middle: low}
    labels = {row: latency_text(math.exp(value)) for row, value in ticks.items()}
    margin = max(map(len, labels.values()))
    lines = [
        f"{labels.get(row, ''):>{margin}} {ink.axis}{''.join(cells)}".rstrip()
        for row, cells in enumerate(grid)
    ]
    lines.append(f"{'':{margin}} {ink.corner}{ink.floor * (step * len(columns))}")
    names = "".join(name.center(step) for name in columns)
    return [*lines, f"{'':{margin}}  {names}".rstrip()]
