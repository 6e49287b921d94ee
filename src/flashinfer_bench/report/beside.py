"""Figures of their own beside a latency: hot caches, host time, launches, energy; absent where not measured."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from flashinfer_bench.text.numbers import NOTHING, energy_text, latency_text
from flashinfer_bench.text.tables import RowColumn

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from flashinfer_bench.data import Performance
    from flashinfer_bench.stats.intervals import Interval

Line = TypeVar("Line")


@dataclass(frozen=True, slots=True)
class BesideLatency:
    """What a trace says of a call besides its latency."""

    launch: str | None = None
    """`graph` where calls were replays of CUDA graphs."""
    launches_per_call: float | None = None
    host_ms: float | None = None
    """Time that a call keeps the host, where that is not its latency."""
    hot_latency_ms: float | None = None
    hot_latency_interval_ms: Interval | None = None
    energy_mj: float | None = None
    energy_interval_mj: Interval | None = None
    energy_missing: str | None = None
    """Why the energy is not known, where it was asked for."""


def beside_latency(performance: Performance | None) -> BesideLatency | None:
    """Take such figures from a trace; None where there are none."""
    if performance is None:
        return None
    hot, energy = performance.hot, performance.energy
    found = BesideLatency(
        launch=performance.launch,
        launches_per_call=performance.launches_per_call,
        host_ms=performance.host_overhead_ms,
        hot_latency_ms=hot.latency_ms if hot else None,
        hot_latency_interval_ms=hot.latency_interval_ms if hot else None,
        energy_mj=energy.call_mj if energy else None,
        energy_interval_mj=energy.call_interval_mj if energy else None,
        energy_missing=energy.missing if energy else None,
    )
    return None if found == BesideLatency() else found


def summed_up(jobs: Sequence[BesideLatency | None]) -> BesideLatency | None:
    """Give medians over workloads; intervals are those of the only one."""
    known = [each for each in jobs if each is not None]
    if len(known) <= 1:
        return known[0] if known else None
    launches = {each.launch for each in known}
    return BesideLatency(
        launch=launches.pop() if len(launches) == 1 else None,
        launches_per_call=_median([each.launches_per_call for each in known]),
        host_ms=_median([each.host_ms for each in known]),
        hot_latency_ms=_median([each.hot_latency_ms for each in known]),
        energy_mj=_median([each.energy_mj for each in known]),
        energy_missing=next((each.energy_missing for each in known if each.energy_missing), None),
    )


def beside_facts(found: BesideLatency | None) -> dict[str, str]:
    """Write what is known, each by its name."""
    if found is None:
        return {}
    missing = f"not measurable here: {found.energy_missing}" if found.energy_missing else ""
    said = {
        "launched": "as a CUDA graph" if found.launch == "graph" else "",
        "hot caches": _time(found.hot_latency_ms, found.hot_latency_interval_ms),
        "host time": _time(found.host_ms),
        "launches": _count(found.launches_per_call),
        "energy": missing or _energy(found),
    }
    return {name: text for name, text in said.items() if text}


def beside_columns(
    get: Callable[[Line], BesideLatency | None],
) -> tuple[RowColumn[Line], ...]:
    """Make a column of each figure; a table shows those that any line has."""
    missing = BesideLatency()

    def column(name: str, text: Callable[[BesideLatency], str]) -> RowColumn[Line]:
        return RowColumn(name, lambda line: text(get(line) or missing), is_number=True)

    return (
        column("hot caches", lambda each: _time(each.hot_latency_ms, each.hot_latency_interval_ms)),
        column("host time", lambda each: _time(each.host_ms)),
        column("launches", lambda each: _count(each.launches_per_call)),
        column("energy", lambda each: NOTHING if each.energy_missing else _energy(each)),
    )


def beside_legend(found: Sequence[BesideLatency | None]) -> list[str]:
    """Say what needs words: how calls were launched, and why there is no energy."""
    known = [each for each in found if each is not None]
    lines = []
    if any(each.launch == "graph" for each in known):
        lines.append("each call is the replay of a CUDA graph (--launch graph)")
    reasons = dict.fromkeys(each.energy_missing for each in known if each.energy_missing)
    return lines + [f"energy: not measurable here: {reason}" for reason in reasons]


def _time(value_ms: float | None, interval_ms: Interval | None = None) -> str:
    return "" if value_ms is None else latency_text(value_ms, interval_ms)


def _count(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def _energy(found: BesideLatency) -> str:
    if found.energy_mj is None:
        return ""
    return energy_text(found.energy_mj, found.energy_interval_mj)


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None
