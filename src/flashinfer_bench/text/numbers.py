"""Numbers as people read them: with a unit, and with no more digits than their interval supports."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flashinfer_bench.stats.intervals import Interval

NOTHING = "-"
"""Stands where nothing was measured."""

ONE_PAIR_LEGEND = "( ): 95% interval within one pair of processes; [ ] of `ab` and `compare` knows how pairs differ"
"""What tables with intervals of `run` say below."""

_SIGNIFICANT_DIGITS = 3
_MOST_DIGITS = 4
_UNITS = (("ns", 1e-6), ("µs", 1e-3), ("ms", 1.0), ("s", 1e3))
_ENERGY_UNITS = (("µJ", 1e-3), ("mJ", 1.0), ("J", 1e3))
_LEAST_PERCENT = 0.005
_SECONDS_PER_MINUTE = 60
_SECONDS_PER_HOUR = 3600


def latency_text(latency_ms: float | None, interval_ms: Interval | None = None) -> str:
    """Write a time in the unit that suits it.

    >>> latency_text(0.0123456)
    '12.3 µs'
    >>> latency_text(0.0123456, (0.0121, 0.0126))
    '12.3 µs'
    >>> latency_text(0.0123456, (0.011, 0.014))
    '12 µs'
    """
    if latency_ms is None:
        return NOTHING
    unit, size_ms = _unit(latency_ms)
    scaled = None if interval_ms is None else (interval_ms[0] / size_ms, interval_ms[1] / size_ms)
    return f"{rounded(latency_ms / size_ms, scaled)} {unit}"


def speedup_text(
    speedup: float | None,
    interval: Interval | None = None,
    *,
    least_decimals: int = 0,
    knows_processes: bool = False,
) -> str:
    """Write how many times faster something is, with the interval where there is one.

    An interval that knows how processes differ stands in square brackets, one from within a pair of them in round.

    >>> speedup_text(1.8345, (1.79, 1.88))
    '1.83x (1.79, 1.88)'
    >>> speedup_text(1.8345, (1.79, 1.88), knows_processes=True)
    '1.83x [1.79, 1.88]'
    >>> speedup_text(1.8345)
    '1.83x'
    """
    if speedup is None:
        return NOTHING
    decimals = min(_decimals(speedup, interval), _SIGNIFICANT_DIGITS - 1 + (interval is not None))
    decimals = max(decimals, least_decimals)
    text = f"{_with_decimals(speedup, decimals)}x"
    if interval is None:
        return text
    low, high = (_with_decimals(end, decimals) for end in interval)
    return f"{text} [{low}, {high}]" if knows_processes else f"{text} ({low}, {high})"


def percent_text(share: float | None) -> str:
    """Write a share of one; none and all are said of nothing else.

    >>> percent_text(1 / 3), percent_text(0.001), percent_text(0.999), percent_text(1.0)
    ('33%', '<1%', '>99%', '100%')
    """
    if share is None:
        return NOTHING
    if 0 < share <= _LEAST_PERCENT:
        return "<1%"
    if 1 - _LEAST_PERCENT <= share < 1:
        return ">99%"
    return f"{share:.0%}"


def error_text(error: float | None) -> str:
    """Write an error: its size matters, its digits do not.

    >>> error_text(0.000123), error_text(0.0), error_text(float("nan"))
    ('1.2e-04', '0', 'nan')
    """
    if error is None:
        return NOTHING
    return "0" if error == 0 else f"{error:.1e}"


def duration_text(duration_s: float) -> str:
    """Write how long something takes or took.

    >>> duration_text(7.6), duration_text(185), duration_text(3720)
    ('8 s', '3 min 05 s', '1 h 02 min')
    """
    whole_s = round(duration_s)
    if whole_s < _SECONDS_PER_MINUTE:
        return f"{whole_s} s"
    if whole_s < _SECONDS_PER_HOUR:
        return f"{whole_s // _SECONDS_PER_MINUTE} min {whole_s % _SECONDS_PER_MINUTE:02d} s"
    minutes = whole_s % _SECONDS_PER_HOUR // _SECONDS_PER_MINUTE
    return f"{whole_s // _SECONDS_PER_HOUR} h {minutes:02d} min"


def count_text(count: int, noun: str) -> str:
    """Write a number of things.

    >>> count_text(1, "job"), count_text(1200, "job")
    ('1 job', '1,200 jobs')
    """
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def rounded(value: float, interval: Interval | None = None) -> str:
    """Round to the place that half the interval's width reaches; to three digits without one.

    >>> rounded(123.456, (123.2, 123.8)), rounded(1.5), rounded(0.98765)
    ('123.5', '1.50', '0.988')
    """
    return _with_decimals(value, _decimals(value, interval))


def size_text(size_bytes: int | None) -> str:
    """Write a number of bytes.

    >>> size_text(512), size_text(524_288), size_text(3_500_000_000)
    ('512 B', '524 kB', '3.5 GB')
    """
    if size_bytes is None:
        return NOTHING
    if size_bytes < 1000:  # noqa: PLR2004  # of a kB
        return f"{size_bytes} B"
    power = min(4, int(math.log10(size_bytes)) // 3)
    return f"{size_bytes / 1000**power:.3g} {('B', 'kB', 'MB', 'GB', 'TB')[power]}"


def energy_text(energy_mj: float, interval_mj: Interval | None = None) -> str:
    """Write an energy of so many millijoules, with the interval where there is one.

    >>> energy_text(0.3456), energy_text(1234.5, (1200.0, 1300.0))
    ('346 µJ', '1.23 J (1.20, 1.30)')
    """
    unit, size_mj = next(
        (each for each in _ENERGY_UNITS[:-1] if energy_mj < 1000 * each[1]), _ENERGY_UNITS[-1]
    )
    scaled = None if interval_mj is None else (interval_mj[0] / size_mj, interval_mj[1] / size_mj)
    written = f"{rounded(energy_mj / size_mj, scaled)} {unit}"
    if scaled is None:
        return written
    return f"{written} ({rounded(scaled[0], scaled)}, {rounded(scaled[1], scaled)})"


def _unit(latency_ms: float) -> tuple[str, float]:
    for unit, size_ms in _UNITS[:-1]:
        if float(f"{latency_ms / size_ms:.{_SIGNIFICANT_DIGITS}g}") < 1000:  # noqa: PLR2004
            return unit, size_ms
    return _UNITS[-1]


def _decimals(value: float, interval: Interval | None) -> int:
    """Places behind the point; negative ones round to tens and hundreds."""
    if not math.isfinite(value) or value == 0:
        return 0
    size = math.floor(math.log10(abs(float(f"{value:.{_SIGNIFICANT_DIGITS}g}"))))
    half = 0.0 if interval is None else (interval[1] - interval[0]) / 2
    if interval is None:
        return _SIGNIFICANT_DIGITS - 1 - size
    if not half > 0 or not math.isfinite(half):
        return _MOST_DIGITS - 1 - size
    return min(_MOST_DIGITS - 1 - size, max(-size, -math.floor(math.log10(half))))


def _with_decimals(value: float, decimals: int) -> str:
    if not math.isfinite(value):
        return str(value)
    return f"{round(value, decimals):.{max(decimals, 0)}f}"
