"""Charts as values: marks at per cent of the room there is, and the numbers behind them as a table."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from flashinfer_bench.report.page.scales import Tick

SHAPES = ("circle", "square", "triangle", "diamond", "cross", "plus")
"""What tells series apart: colour is kept for the one that matters."""


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
