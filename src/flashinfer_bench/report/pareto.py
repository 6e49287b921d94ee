"""Which solutions no other beats in latency, energy and memory at once, as values and as a page."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from flashinfer_bench.report.standing import left_out_blocks
from flashinfer_bench.text.numbers import energy_text, latency_text, size_text
from flashinfer_bench.text.tables import Block, Page, RowColumn, heading, paragraph, rows_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flashinfer_bench.data.rows import TraceRow
    from flashinfer_bench.report.standing import LeftOut, Standing, Tally
    from flashinfer_bench.stats.intervals import Interval

Figure = Literal["latency", "energy", "memory"]
_FIGURES: tuple[Figure, ...] = ("latency", "energy", "memory")


@dataclass(frozen=True, slots=True)
class ParetoLine:
    """One solution of a definition; figures are medians over the workloads that it passed."""

    solution: str
    author: str | None
    language: str | None
    latency_ms: float | None
    energy_mj: float | None
    peak_memory_bytes: float | None
    on_front: int
    """Workloads on which no other solution is better in one figure and worse in none."""
    workloads: int
    """Workloads that it passed."""


@dataclass(frozen=True, slots=True)
class ParetoFront:
    """The solutions of one definition on one kind of hardware, those on the front of most workloads first."""

    hardware: str
    definition: str
    lines: tuple[ParetoLine, ...]
    without: tuple[Figure, ...]
    """Figures that some trace lacks, so that its workload is compared without them."""


def pareto_fronts(found: Standing) -> tuple[ParetoFront, ...]:
    """Find the front of every workload of every definition, on each kind of hardware by itself."""
    return tuple(
        _front(hardware, definition, [each for each in by_solution.values() if each.passed])
        for hardware, by_definition in found.tallies.items()
        for definition, by_solution in sorted(by_definition.items())
        if any(each.passed for each in by_solution.values())
    )


def _front(hardware: str, definition: str, tallies: Sequence[Tally]) -> ParetoFront:
    by_workload: dict[str, dict[str, TraceRow]] = {}
    for tally in tallies:
        for uuid, row in tally.passed.items():
            by_workload.setdefault(uuid, {})[tally.solution] = row
    shared = {uuid: _known_of_all(list(rows.values())) for uuid, rows in by_workload.items()}
    winners = {uuid: _winners(rows, shared[uuid]) for uuid, rows in by_workload.items()}
    lines = [_line(each, winners) for each in tallies]
    lines.sort(key=lambda line: (-line.on_front, line.latency_ms or 0.0, line.solution))
    without = [each for each in _FIGURES if any(each not in known for known in shared.values())]
    return ParetoFront(hardware, definition, tuple(lines), tuple(without))


def _known_of_all(rows: Sequence[TraceRow]) -> list[Figure]:
    return [each for each in _FIGURES if all(_value(row, each) is not None for row in rows)]


def _winners(rows: Mapping[str, TraceRow], figures: Sequence[Figure]) -> set[str]:
    return {
        name
        for name, row in rows.items()
        if not any(dominates(other, row, figures) for other in rows.values() if other is not row)
    }


def dominates(one: TraceRow, other: TraceRow, figures: Sequence[Figure]) -> bool:
    """Tell whether one is larger in no figure, and smaller in one by more than the intervals of both leave open."""
    values = [(_value(one, each) or 0.0, _value(other, each) or 0.0) for each in figures]
    if any(mine > theirs for mine, theirs in values):
        return False
    return any(_bounds(one, each)[1] < _bounds(other, each)[0] for each in figures)


def _value(row: TraceRow, figure: Figure) -> float | None:
    if figure == "latency":
        return row.latency_ms
    return row.energy_mj if figure == "energy" else row.peak_memory_bytes


def _bounds(row: TraceRow, figure: Figure) -> Interval:
    interval = {
        "latency": row.latency_interval_ms,
        "energy": row.energy_interval_mj,
        "memory": None,
    }[figure]
    value = _value(row, figure) or 0.0
    return interval or (value, value)


def _line(tally: Tally, winners: Mapping[str, set[str]]) -> ParetoLine:
    rows = list(tally.passed.values())
    return ParetoLine(
        solution=tally.solution,
        author=tally.author,
        language=tally.language,
        latency_ms=_middle(rows, "latency"),
        energy_mj=_middle(rows, "energy"),
        peak_memory_bytes=_middle(rows, "memory"),
        on_front=sum(tally.solution in winners[uuid] for uuid in tally.passed),
        workloads=len(rows),
    )


def _middle(rows: Sequence[TraceRow], figure: Figure) -> float | None:
    known = [value for row in rows if (value := _value(row, figure)) is not None]
    return statistics.median(known) if known else None


def pareto_page(fronts: Sequence[ParetoFront], left_out: LeftOut) -> Page:
    """Show a table for each definition, and how to read it."""
    if not fronts:
        return (
            heading("Nothing passed yet"),
            paragraph("`flashinfer-bench run --energy` measures the solutions of a dataset"),
            *left_out_blocks(left_out),
        )
    blocks: list[Block] = []
    for front in fronts:
        blocks.append(heading(f"{front.definition} on {front.hardware}"))
        blocks.append(rows_table(_COLUMNS, front.lines))
    blocks.append(
        paragraph(
            "",
            "on the front: workloads on which no other solution is surely better in one of latency, energy and "
            "peak memory, and worse in none; figures: median over workloads",
            *_without_lines(fronts),
        )
    )
    return (*blocks, *left_out_blocks(left_out))


def _without_lines(fronts: Sequence[ParetoFront]) -> list[str]:
    lacking = [front.definition for front in fronts if "energy" in front.without]
    if not lacking:
        return []
    names = ", ".join(dict.fromkeys(lacking))
    return [
        f"energy is not known of every solution and is left out where it is not: {names}; `run --energy` measures it"
    ]


_COLUMNS: tuple[RowColumn[ParetoLine], ...] = (
    RowColumn("solution", lambda line: line.solution),
    RowColumn("language", lambda line: line.language or ""),
    RowColumn("latency", lambda line: latency_text(line.latency_ms), is_number=True),
    RowColumn(
        "energy",
        lambda line: "" if line.energy_mj is None else energy_text(line.energy_mj),
        is_number=True,
    ),
    RowColumn(
        "peak memory",
        lambda line: (
            "" if line.peak_memory_bytes is None else size_text(round(line.peak_memory_bytes))
        ),
        is_number=True,
    ),
    RowColumn("on the front", lambda line: f"{line.on_front}/{line.workloads}", is_number=True),
)
