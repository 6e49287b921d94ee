"""What the page of a definition shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashinfer_bench.report.best import Bounds, best_by_hardware, largest
from flashinfer_bench.report.page import drawing
from flashinfer_bench.report.page.roofline import roofline, why_none

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flashinfer_bench.report.best import Best
    from flashinfer_bench.report.page.content import Content, RecordedJob
    from flashinfer_bench.report.page.figures import Figure
    from flashinfer_bench.report.standing import Tally
    from flashinfer_bench.report.visualize import DefinitionChart, SolutionChart
    from flashinfer_bench.stats.intervals import Interval


@dataclass(frozen=True, slots=True)
class SolutionLine:
    """A solution of a definition on one kind of hardware."""

    name: str
    author: str | None
    language: str | None
    speedup: float | None
    speedup_interval: Interval | None
    latency_ms: float | None
    """Median over workloads."""
    sol_fraction: float | None
    """The highest share of the roofline over workloads."""
    max_absolute_error: float | None
    max_relative_error: float | None
    peak_memory_bytes: int | None
    """Largest over workloads."""
    build_ms: float | None
    """The longest build."""
    passed: int
    attempted: int
    statuses: Mapping[str, int]
    """Failures that stand."""
    violations: int
    is_best: bool
    is_tied: bool
    """Whether its interval and the best one's overlap: which is faster is not known."""
    specialised: str | None
    """Where it was wrong, or slow, on sizes that it had not seen."""


@dataclass(frozen=True, slots=True)
class OnHardware:
    """A definition on one kind of hardware."""

    hardware: str
    solutions: tuple[SolutionLine, ...]
    """The fastest first."""
    figures: tuple[Figure, ...]
    jobs: tuple[RecordedJob, ...]
    """Those that count for their solutions."""
    reason: str | None
    """Why there is no best solution."""
    interpreted: tuple[str, ...]
    """Solutions that were run here, and only by an interpreter."""
    weak: tuple[str, ...]
    """Solutions that were run here, and only on weak tasks."""
    absent: tuple[str, ...]
    """Solutions of which nothing that counts was run here."""
    without_roof: str
    """Why there is no roofline; empty where there is one, or nothing passed."""


class Definitions:
    """Every definition on every kind of hardware."""

    def __init__(self, content: Content) -> None:
        self._content = content
        self.best: dict[tuple[str, str], Best] = {}
        """Best solutions by hardware and definition."""
        self.reasons: dict[tuple[str, str], str] = {}
        for group in best_by_hardware(content.standing, Bounds()):
            self.best |= {(group.hardware, each.definition): each for each in group.best}
            self.reasons |= {
                (group.hardware, name): why for name, why in group.none_qualifies.items()
            }

    def of(
        self, definition: str, charts: Mapping[tuple[str, str], DefinitionChart]
    ) -> list[OnHardware]:
        """Give a definition by hardware, as far as it was measured there."""
        return [
            self._on_hardware(hardware, definition, tallies[definition], charts)
            for hardware, tallies in self._content.standing.tallies.items()
            if definition in tallies
        ]

    def _on_hardware(
        self,
        hardware: str,
        definition: str,
        by_solution: Mapping[str, Tally],
        charts: Mapping[tuple[str, str], DefinitionChart],
    ) -> OnHardware:
        chart = charts.get((hardware, definition))
        best = self.best.get((hardware, definition))
        solutions = chart.solutions if chart else ()
        jobs = self._jobs(by_solution, [each.solution for each in solutions])
        others = [
            name
            for name in self._content.solutions_by_definition.get(definition, ())
            if name not in by_solution
        ]
        interpreted = {
            job.row.solution
            for job in self._content.jobs.get(definition, ())
            if job.row.interpreted and job.row.hardware == hardware
        }
        weak = {
            job.row.solution
            for job in self._content.jobs.get(definition, ())
            if self._content.left_out(job) == "weak task" and job.row.hardware == hardware
        } - interpreted
        return OnHardware(
            hardware=hardware,
            solutions=tuple(
                _line(each, by_solution[each.solution], best, jobs) for each in solutions
            ),
            figures=_figures(chart, by_solution, jobs, best.solution if best else None)
            if chart
            else (),
            jobs=tuple(jobs),
            reason=self.reasons.get((hardware, definition)),
            interpreted=tuple(name for name in others if name in interpreted),
            weak=tuple(name for name in others if name in weak),
            absent=tuple(name for name in others if name not in interpreted | weak),
            without_roof=why_none([job for job in jobs if job.row.is_passed]),
        )

    def _jobs(self, by_solution: Mapping[str, Tally], order: Sequence[str]) -> list[RecordedJob]:
        """Give what counts for the solutions: the smallest workload first, the fastest solution first."""
        place = {name: index for index, name in enumerate(order)}
        jobs = [
            self._content.job_of(row)
            for tally in by_solution.values()
            for row in (*tally.passed.values(), *tally.failed)
        ]
        return sorted(jobs, key=lambda job: (job.size, place[job.row.solution], job.row.timestamp))


def _line(
    chart: SolutionChart, tally: Tally, best: Best | None, jobs: Sequence[RecordedJob]
) -> SolutionLine:
    rows = list(tally.passed.values())
    times = sorted(row.latency_ms for row in rows if row.latency_ms)
    known = [
        job.performance for job in jobs if job.row.solution == chart.solution and job.performance
    ]
    fractions = [each.sol_fraction for each in known if each.sol_fraction]
    statuses: dict[str, int] = {}
    for row in tally.failed:
        statuses[row.status] = statuses.get(row.status, 0) + 1
    return SolutionLine(
        name=chart.solution,
        author=chart.author,
        language=chart.language,
        speedup=chart.speedup,
        speedup_interval=chart.speedup_interval,
        latency_ms=_median(times),
        sol_fraction=max(fractions, default=None),
        max_absolute_error=largest([row.max_absolute_error for row in rows]),
        max_relative_error=largest([row.max_relative_error for row in rows]),
        peak_memory_bytes=max((each.peak_memory_bytes or 0 for each in known), default=0) or None,
        build_ms=max((each.build_ms or 0.0 for each in known), default=0.0) or None,
        passed=len(rows),
        attempted=tally.workload_count,
        statuses=dict(sorted(statuses.items())),
        violations=tally.violation_count,
        is_best=best is not None and chart.solution == best.solution,
        is_tied=best is not None and chart.solution in best.tied,
        specialised=tally.specialised,
    )


def _median(times: Sequence[float]) -> float | None:
    middle = len(times) // 2
    return (times[middle] + times[-middle - 1]) / 2 if times else None


def _figures(
    chart: DefinitionChart,
    by_solution: Mapping[str, Tally],
    jobs: Sequence[RecordedJob],
    best: str | None,
) -> tuple[Figure, ...]:
    order = [each.solution for each in chart.solutions]
    passed = [job for job in jobs if job.row.is_passed]
    drawn = (
        drawing.speedup_bars(chart, best),
        drawing.latency_plot(chart, best),
        drawing.fast_plot(chart, by_solution, best),
        roofline(passed, order, best),
        drawing.sample_bars(chart, best),
    )
    return tuple(figure for figure in drawn if figure is not None)
