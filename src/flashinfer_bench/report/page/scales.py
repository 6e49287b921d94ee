"""Scales of charts: numbers to per cent of the room there is, with ticks at round numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

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
