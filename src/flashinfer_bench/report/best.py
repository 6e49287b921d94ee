"""The best solution of each definition, or why there is none, as values and as a page."""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from flashinfer_bench.report.standing import left_out_blocks
from flashinfer_bench.stats.means import geometric_mean, mean_interval
from flashinfer_bench.text.numbers import (
    NOTHING,
    ONE_PAIR_LEGEND,
    error_text,
    latency_text,
    size_text,
    speedup_text,
)
from flashinfer_bench.text.tables import Block, Page, RowColumn, heading, paragraph, rows_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from flashinfer_bench.data.rows import TraceRow
    from flashinfer_bench.report.standing import LeftOut, Standing, Tally
    from flashinfer_bench.stats.intervals import Interval

_MOST_NAMES = 8
_MOST_IN_A_CELL = 2


@dataclass(frozen=True, slots=True)
class Bounds:
    """How large errors may be; None sets no bound, for a passed trace was judged already."""

    max_abs_error: float | None = None
    max_rel_error: float | None = None

    def admit(self, row: TraceRow) -> bool:
        """Tell whether a row's errors are within the bounds; NaN is not."""
        return _within(row.max_absolute_error, self.max_abs_error) and _within(
            row.max_relative_error, self.max_rel_error
        )


@dataclass(frozen=True, slots=True)
class WorkloadResult:
    """One workload of a best solution."""

    workload: str
    axes: dict[str, int]
    latency_ms: float | None
    reference_latency_ms: float | None
    speedup: float | None
    speedup_interval: Interval | None
    max_absolute_error: float | None
    max_relative_error: float | None


@dataclass(frozen=True, slots=True)
class Best:
    """A definition's best solution on one kind of hardware."""

    definition: str
    solution: str
    author: str | None
    language: str | None
    speedup: float | None
    """Geometric mean over workloads of the speedup over the reference."""
    speedup_interval: Interval | None
    latency_ms: float | None
    """Median over workloads."""
    peak_memory_bytes: int | None
    """Largest over workloads."""
    build_ms: float | None
    """Longest over workloads."""
    max_absolute_error: float | None
    max_relative_error: float | None
    workloads_passed: int
    workloads_attempted: int
    violations: int
    """Its traces that broke the contract, on other workloads."""
    workloads: tuple[WorkloadResult, ...]
    tied: tuple[str, ...] = ()
    """Solutions that failed nowhere and whose interval overlaps its own: which is faster is not known."""
    specialised: str | None = None
    """Where it was wrong, or slow, on sizes that it had not seen."""
    near_duplicates: dict[str, float] = field(default_factory=dict)
    """Solutions of the definition whose source is nearly the same, and how alike, from 0.85 to 1."""


@dataclass(frozen=True, slots=True)
class BestOf:
    """What one kind of hardware has to show."""

    hardware: str
    best: tuple[Best, ...]
    none_qualifies: dict[str, str]
    """Definitions without a best solution, and why."""


def best_by_hardware(standing: Standing, bounds: Bounds) -> tuple[BestOf, ...]:
    """Pick the best solution of every definition, for each kind of hardware by itself.

    Solutions that failed nowhere come first, then higher speedups.
    """
    return tuple(
        _best_of(hardware, by_definition, bounds, {name for name, _ in standing.weak})
        for hardware, by_definition in standing.tallies.items()
    )


def with_near_duplicates(
    groups: Iterable[BestOf], near: Mapping[str, Mapping[str, float]]
) -> tuple[BestOf, ...]:
    """Add to each best solution which others are nearly the same."""
    return tuple(
        replace(
            group,
            best=tuple(
                replace(each, near_duplicates=dict(near.get(each.solution, {})))
                for each in group.best
            ),
        )
        for group in groups
    )


def _best_of(
    hardware: str,
    by_definition: Mapping[str, Mapping[str, Tally]],
    bounds: Bounds,
    weak: set[str],
) -> BestOf:
    best: list[Best] = []
    reasons: dict[str, str] = {}
    for definition, by_solution in sorted(by_definition.items()):
        contenders = [
            contender
            for tally in by_solution.values()
            if (contender := _contender(definition, tally, bounds)) is not None
        ]
        if contenders:
            best.append(_with_ties(sorted(contenders, key=_order)))
        elif not by_solution and definition in weak:
            reasons[definition] = "only weak tasks, where less than the work may pass"
        else:
            reasons[definition] = _reason(by_solution, bounds)
    return BestOf(hardware, tuple(best), reasons)


def _with_ties(ranked: Sequence[Best]) -> Best:
    best = ranked[0]
    return replace(best, tied=tuple(each.solution for each in ranked[1:] if _is_tied(each, best)))


def _is_tied(other: Best, best: Best) -> bool:
    mine, theirs = other.speedup_interval, best.speedup_interval
    if other.workloads_passed < other.workloads_attempted or mine is None or theirs is None:
        return False
    return mine[0] <= theirs[1] and theirs[0] <= mine[1]


def _contender(definition: str, tally: Tally, bounds: Bounds) -> Best | None:
    rows = [row for row in tally.passed.values() if row.latency_ms and bounds.admit(row)]
    if not rows:
        return None
    rows.sort(key=lambda row: (sorted(row.axes.items()), row.workload_uuid))
    compared = [row for row in rows if row.speedup]
    return Best(
        definition=definition,
        solution=tally.solution,
        author=tally.author,
        language=tally.language,
        speedup=geometric_mean([row.speedup for row in compared if row.speedup]),
        speedup_interval=mean_interval(
            [(row.speedup, row.speedup_interval) for row in compared if row.speedup]
        ),
        latency_ms=statistics.median(row.latency_ms for row in rows if row.latency_ms),
        peak_memory_bytes=max((row.peak_memory_bytes or 0 for row in rows), default=0) or None,
        build_ms=max((row.build_ms or 0.0 for row in rows), default=0.0) or None,
        max_absolute_error=largest([row.max_absolute_error for row in rows]),
        max_relative_error=largest([row.max_relative_error for row in rows]),
        workloads_passed=len(rows),
        workloads_attempted=tally.workload_count,
        violations=tally.violation_count,
        workloads=tuple(_workload(row) for row in rows),
        specialised=tally.specialised,
    )


def _order(best: Best) -> tuple[bool, float, float, str]:
    has_failed = best.workloads_passed < best.workloads_attempted
    return has_failed, -(best.speedup or 0.0), best.latency_ms or 0.0, best.solution


def _reason(by_solution: Mapping[str, Tally], bounds: Bounds) -> str:
    if not by_solution:
        return "only interpreted kernels, whose times mean nothing"
    passed = [row for tally in by_solution.values() for row in tally.passed.values()]
    failed = Counter(row.status for tally in by_solution.values() for row in tally.failed)
    if not passed:
        counts = ", ".join(f"{count} {status}" for status, count in sorted(failed.items()))
        return f"no solution passed: {counts}"
    if not any(bounds.admit(row) for row in passed):
        closest = min(passed, key=lambda row: row.max_absolute_error or 0.0)
        return (
            f"{len(passed)} passed, all with errors beyond the bounds given; the closest is off by "
            f"{error_text(closest.max_absolute_error)} (relative: "
            f"{error_text(closest.max_relative_error)})"
        )
    return f"{len(passed)} passed, none with a time"


def _workload(row: TraceRow) -> WorkloadResult:
    return WorkloadResult(
        workload=row.workload_uuid,
        axes=row.axes,
        latency_ms=row.latency_ms,
        reference_latency_ms=row.reference_latency_ms,
        speedup=row.speedup,
        speedup_interval=row.speedup_interval,
        max_absolute_error=row.max_absolute_error,
        max_relative_error=row.max_relative_error,
    )


def _within(error: float | None, bound: float | None) -> bool:
    return bound is None or error is None or error <= bound


def largest(errors: Sequence[float | None]) -> float | None:
    """Give the largest error; NaN is larger than any number."""
    known = [error for error in errors if error is not None]
    strange = [error for error in known if error != error]  # noqa: PLR0124  # NaN alone differs from itself
    return strange[0] if strange else max(known, default=None)


def best_page(groups: Sequence[BestOf], unmeasured: Sequence[str], left_out: LeftOut) -> Page:
    """Show the best solutions; `unmeasured` names definitions without a single trace."""
    blocks: list[Block] = []
    for group in groups:
        blocks.append(heading(f"Best solutions on {group.hardware}"))
        if group.best:
            blocks.append(rows_table(_COLUMNS, group.best))
        blocks += reason_blocks("none qualifies:", group.none_qualifies)
    if any(group.best for group in groups):
        blocks.append(
            paragraph(
                "",
                "speedup: over the reference, geometric mean over workloads; latency: median over "
                "workloads; errors: worst",
                ONE_PAIR_LEGEND,
                *(
                    ["tied with: intervals overlap, so which is faster is not known"]
                    if any(best.tied for group in groups for best in group.best)
                    else []
                ),
                *(
                    ["near-duplicates: solutions whose source is nearly the same"]
                    if any(best.near_duplicates for group in groups for best in group.best)
                    else []
                ),
                *specialised_legend([best.specialised for group in groups for best in group.best]),
            )
        )
    if unmeasured:
        blocks += [
            heading("Not measured yet"),
            paragraph(_names_text(unmeasured), "`flashinfer-bench run` measures them"),
        ]
    if not blocks:
        blocks.append(heading("The dataset holds no definitions"))
    return (*blocks, *left_out_blocks(left_out))


_COLUMNS: tuple[RowColumn[Best], ...] = (
    RowColumn("definition", lambda best: best.definition),
    RowColumn("best solution", lambda best: best.solution),
    RowColumn("tied with", lambda best: _few_names(best.tied)),
    RowColumn("near-duplicates", lambda best: _few_names(tuple(best.near_duplicates))),
    RowColumn("author", lambda best: best.author or NOTHING),
    RowColumn("language", lambda best: best.language or NOTHING),
    RowColumn(
        "speedup (95%)",
        lambda best: speedup_text(best.speedup, best.speedup_interval),
        is_number=True,
    ),
    RowColumn("latency", lambda best: latency_text(best.latency_ms), is_number=True),
    RowColumn(
        "peak memory",
        lambda best: size_text(best.peak_memory_bytes) if best.peak_memory_bytes else "",
        is_number=True,
    ),
    RowColumn(
        "build", lambda best: latency_text(best.build_ms) if best.build_ms else "", is_number=True
    ),
    RowColumn("abs error", lambda best: error_text(best.max_absolute_error), is_number=True),
    RowColumn("rel error", lambda best: error_text(best.max_relative_error), is_number=True),
    RowColumn(
        "workloads",
        lambda best: f"{best.workloads_passed}/{best.workloads_attempted}",
        is_number=True,
    ),
    RowColumn("violations", lambda best: str(best.violations or ""), is_number=True),
    RowColumn("specialised", lambda best: best.specialised or ""),
)


def specialised_legend(found: Iterable[str | None]) -> list[str]:
    """Say what it means that a solution is specialised; nothing where none is."""
    if not any(found):
        return []
    return [
        "specialised: passed its workloads; wrong, or under half as fast as expected, on sizes it never saw (--unseen)"
    ]


def _few_names(names: Sequence[str]) -> str:
    more = len(names) - _MOST_IN_A_CELL
    return ", ".join([*names[:_MOST_IN_A_CELL], *([f"{more} more"] if more > 0 else [])])


def reason_blocks(title: str, reasons: Mapping[str, str]) -> list[Block]:
    """List reasons by what they apply to; many that share one are named in one line."""
    if not reasons:
        return []
    names_by_reason: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        names_by_reason.setdefault(reason, []).append(name)
    lines = [f"  {_names_text(names)}: {reason}" for reason, names in names_by_reason.items()]
    return [paragraph("", title, *lines)]


def _names_text(names: Sequence[str]) -> str:
    if len(names) <= _MOST_NAMES:
        return ", ".join(names)
    return f"{', '.join(names[:_MOST_NAMES])} and {len(names) - _MOST_NAMES} more"
