"""Charts as values: scales with ticks at round numbers, marks at per cent of the room there is, numbers as a table."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

SHAPES = ("circle", "square", "triangle", "diamond", "cross", "plus")
"""What tells series apart: colour is kept for the one that matters."""

_MOST_TICKS = 7
_FINEST = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)


@dataclass(frozen=True, slots=True)
class Tick:
    """A round number, where it lies and how it reads."""

    at: float
    """Per cent."""
    text: str
    is_minor: bool = False
    """Left out where there is little room."""


def short(text: str) -> str:
    """Leave out zeros that say nothing at a round number.

    >>> short("30.0 µs"), short("1.50 TB/s"), short("100 kB")
    ('30 µs', '1.5 TB/s', '100 kB')
    """
    number, space, unit = text.partition(" ")
    if "." in number:
        number = number.rstrip("0").rstrip(".")
    return f"{number}{space}{unit}"


@dataclass(frozen=True, slots=True)
class Scale:
    """A range of numbers laid over 0 to 100%."""

    low: float
    high: float
    is_logarithmic: bool = False

    def at(self, value: float) -> float:
        """Place a number; what lies outside is put at the edge.

        >>> Scale(1, 100, is_logarithmic=True).at(10), Scale(0, 4).at(1)
        (50.0, 25.0)
        """
        low, high, value = (
            (math.log(self.low), math.log(self.high), math.log(max(value, 1e-300)))
            if self.is_logarithmic
            else (self.low, self.high, value)
        )
        return round(100 * min(1.0, max(0.0, (value - low) / (high - low))), 2)

    def ticks(
        self, text: Callable[[float], str], *, most: int = _MOST_TICKS, is_whole: bool = False
    ) -> tuple[Tick, ...]:
        """Give round numbers inside, every other one minor where there are many."""
        values = self._logarithmic(most) if self.is_logarithmic else self._linear(most)
        if is_whole:
            values = [value for value in values if value == round(value)]
        few = len(values) <= (most + 1) // 2
        return tuple(
            Tick(self.at(value), short(text(value)), is_minor=not few and index % 2 == 1)
            for index, value in enumerate(values)
        )

    def _linear(self, most: int) -> list[float]:
        step = 10.0 ** math.floor(math.log10((self.high - self.low) / 2))
        while (self.high - self.low) / step > most:
            step *= 2 if f"{step:e}"[0] != "2" else 2.5
        first = math.ceil(self.low / step - 1e-9)
        count = math.floor((self.high - first * step) / step + 1e-9)
        return [(first + index) * step for index in range(count + 1)]

    def _logarithmic(self, most: int) -> list[float]:
        decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        for digits in (_FINEST, (1.0, 2.0, 5.0), (1.0, 3.0), (1.0,)):
            values = [d * 10.0**decade for decade in decades for d in digits]
            inside = [v for v in values if self.low * 0.999 <= v <= self.high * 1.001]
            if len(inside) <= most:
                return inside
        return inside[:: math.ceil(len(inside) / most)]


def logarithmic(values: Iterable[float], *, margin: float = 1.15) -> Scale | None:
    """Span positive numbers on a logarithmic scale with some air; None where there is none."""
    known = [value for value in values if value > 0 and math.isfinite(value)]
    if not known:
        return None
    low, high = min(known), max(known)
    if high / low < 1.5:  # noqa: PLR2004  # a scale needs some room
        low, high = low / 1.25, high * 1.25
    return Scale(low / margin, high * margin, is_logarithmic=True)


@dataclass(frozen=True, slots=True)
class Numbers:
    """A figure's numbers as a table."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class PlotPoint:
    """A point, and what is said of it."""

    x: float
    y: float
    text: str


@dataclass(frozen=True, slots=True)
class PlotSeries:
    """Points of one solution, joined by a line where there are several."""

    name: str
    key: str
    """Ties what belongs to one solution together, across the figures of a page."""
    marks: tuple[PlotPoint, ...]
    shape: str = "circle"
    is_reference: bool = False
    is_best: bool = False
    is_joined: bool = True
    line: tuple[tuple[float, float], ...] = ()
    """Corners of the line where it is not from mark to mark."""

    @property
    def points(self) -> str:
        """The line's corners as SVG writes them, in a square of a thousand."""
        corners = self.line or tuple((mark.x, mark.y) for mark in self.marks)
        return " ".join(f"{10 * x:g},{1000 - 10 * y:g}" for x, y in corners)


@dataclass(frozen=True, slots=True)
class NamedLine:
    """A line across a plot with a name: a ceiling, the reference."""

    points: str
    text: str
    x: float
    y: float
    """Where the name stands."""
    anchor: Literal["start", "end"] = "end"


@dataclass(frozen=True, slots=True)
class Plot:
    """Series between two axes."""

    key: str
    title: str
    finding: str
    """What it shows, in a sentence."""
    description: str
    """How it is read."""
    x_name: str
    y_name: str
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    series: tuple[PlotSeries, ...]
    numbers: Numbers
    rules: tuple[NamedLine, ...] = ()
    remark: str = ""
    kind: Literal["plot"] = "plot"


@dataclass(frozen=True, slots=True)
class Bar:
    """One line of a bar chart: a name, a bar with its interval, and what it says."""

    name: str
    key: str
    text: str
    length: float | None
    """Per cent; None where there is nothing to draw."""
    low: float = 0.0
    high: float = 0.0
    is_best: bool = False
    has_interval: bool = False
    cells: tuple[float, ...] = ()
    """Heights of a histogram's cells, instead of a bar."""


@dataclass(frozen=True, slots=True)
class Bars:
    """Bars below one another on one scale."""

    key: str
    title: str
    finding: str
    """What it shows, in a sentence."""
    description: str
    """How it is read."""
    x_name: str
    bars: tuple[Bar, ...]
    x_ticks: tuple[Tick, ...]
    numbers: Numbers
    one: float | None = None
    """Where 1 lies, if it is on the scale."""
    remark: str = ""
    kind: Literal["bars"] = "bars"
    row: int = field(default=34)
    """Pixels of one line."""

    @property
    def height(self) -> int:
        """Pixels of all lines."""
        return self.row * len(self.bars)


Figure = Plot | Bars
