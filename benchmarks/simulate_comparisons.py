"""Are `report compare` and `report history` right? Simulated runs of equal and of different code, told apart.

Two runs of six jobs, all of equal code, on the made-up machines of `simulate_intervals.py`, are compared as recorded
runs are: against the reference, with and without what the references tell of luck, and by latency alone. Then
whole histories, without a change and with one. `--write` puts the tables into docs/reports.md. Exits with 1 when a bar
is missed: no more than 5% of equal jobs called different, 8% where processes differ, which six jobs tell roughly; no
more than 5% of histories without a change marked.

    python benchmarks/simulate_comparisons.py --runs 300 --write
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from simulate_intervals import MACHINES, RUN, SEED, Machine, _blocks

from flashinfer_bench.bench.timing.statistics import block_ratios, series_interval
from flashinfer_bench.report.change_points import FALSE_ALARMS, change_points
from flashinfer_bench.report.compare_ratios import Basis, JobRatio, Source, luck, widened
from flashinfer_bench.report.shifts import quotient, series_shift
from flashinfer_bench.report.verdicts import Verdict, verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PAGE = Path(__file__).parents[1] / "docs" / "reports.md"
MARKS = "<!-- simulated comparisons: begin -->", "<!-- simulated comparisons: end -->"
JOBS = 6
MOST_FALSE = 0.05
MOST_FALSE_WHERE_PROCESSES_DIFFER = 0.08
_DIFFERENT = (Verdict.FASTER, Verdict.SLOWER)
_LENGTHS = (10, 20, 50)
_SLOWDOWN = 0.9


@dataclass(frozen=True)
class Run:
    """Blocks of one job in one run: times of the solution and of its reference, which are equal code."""

    solution: list[float]
    reference: list[float]
    speedups: list[float]


def run(machine: Machine, draw: np.random.Generator) -> Run:
    """Time a job."""
    shape = (1, len(RUN.sizes), max(RUN.sizes))
    own = [np.zeros(shape) if machine.own is None else machine.own(draw, shape) for _ in range(2)]
    moments = machine.moment(draw, RUN.shape)[0]
    reference, solution = _blocks(RUN, moments, [each[0] for each in own], draw)
    medians = [[statistics.median(block) for block in side] for side in (solution, reference)]
    return Run(*medians, block_ratios(reference, solution))


def job_ratios(old: Sequence[Run], new: Sequence[Run], basis: Basis) -> list[JobRatio]:
    """Compare jobs one by one, as if each were alone."""
    found = []
    for one, two in zip(old, new, strict=True):
        by_basis = {
            Basis.SPEEDUP: (one.speedups, two.speedups),
            Basis.LATENCY: (
                [1 / each for each in one.solution],
                [1 / each for each in two.solution],
            ),
        }
        found.append(JobRatio(*series_shift(*by_basis[basis]), basis, Source.SAMPLES))
    return found


def with_controls(old: Sequence[Run], new: Sequence[Run]) -> list[JobRatio]:
    """Compare jobs as `report compare` does: what the references differ by widens every interval."""
    controls = [
        quotient(
            statistics.median(two.reference), series_interval(two.reference),
            statistics.median(one.reference), series_interval(one.reference),
        )
        for one, two in zip(old, new, strict=True)
    ]  # fmt: skip
    ratios = job_ratios(old, new, Basis.SPEEDUP)
    known = luck(ratios, controls, Basis.SPEEDUP)
    return ratios if known is None else [widened(each, known, len(controls)) for each in ratios]


@dataclass(frozen=True)
class Way:
    """How one way of comparing did on one machine."""

    different: float
    width: float

    @property
    def cells(self) -> str:
        """As cells of a table."""
        return f"{self.different:.1%} | {self.width:.0%}"


def way(found: Sequence[JobRatio]) -> Way:
    """Sum comparisons of equal code up."""
    intervals = [each.interval or (0.0, math.inf) for each in found]
    return Way(
        statistics.mean(verdict(each) in _DIFFERENT for each in intervals),
        statistics.median(high / low - 1 if low else math.inf for low, high in intervals),
    )


def comparisons(runs: int) -> tuple[list[str], list[str]]:
    """Compare on every machine; the table's lines, and the bars that are missed."""
    head = (
        f"| machine | `report compare`, {JOBS} jobs: equal code called different | width | one job alone | width | "
        "by latency alone | width |"
    )
    lines = [head, "|---|---:|---:|---:|---:|---:|---:|"]
    faults = []
    for index, machine in enumerate(MACHINES):
        draw = np.random.default_rng([SEED, index, JOBS])
        ways: list[list[JobRatio]] = [[], [], []]
        for _ in range(max(1, runs // JOBS)):
            old, new = ([run(machine, draw) for _ in range(JOBS)] for _ in range(2))
            ways[0] += with_controls(old, new)
            ways[1] += job_ratios(old, new, Basis.SPEEDUP)
            ways[2] += job_ratios(old, new, Basis.LATENCY)
        ours, alone, latency = map(way, ways)
        lines.append(f"| {machine.name} | {ours.cells} | {alone.cells} | {latency.cells} |")
        bar = MOST_FALSE_WHERE_PROCESSES_DIFFER if machine.differs_by_process else MOST_FALSE
        if not machine.is_beyond_a_run and ours.different > bar:
            faults.append(f"{machine.name}: {ours.different:.1%} of equal jobs called different")
    return lines, faults


def _bursts(draw: random.Random) -> float:
    return draw.gauss(0, 0.01) + (0.2 if draw.random() < 0.15 else 0.0)


def _heavy(draw: random.Random) -> float:
    return 0.02 * draw.gauss(0, 1) / math.sqrt(draw.gammavariate(1, 1))


HISTORIES: dict[str, Callable[[random.Random], float]] = {
    "noise of 2%": lambda draw: draw.gauss(0, 0.02),
    "Student's t, two degrees of freedom, 2%": _heavy,
    "15% of the runs 20% off, noise of 1%": _bursts,
}
WALK = "each run half like the one before, 2%"


def series(name: str, length: int, draw: random.Random) -> list[float]:
    """Make the speeds of runs of the same code."""
    logs: list[float] = []
    for _ in range(length):
        noise = HISTORIES.get(name, HISTORIES["noise of 2%"])(draw)
        logs.append(noise + (0.5 * logs[-1] if name == WALK and logs else 0.0))
    return [math.exp(each) for each in logs]


def histories(runs: int) -> tuple[list[str], list[str]]:
    """Search histories for changes; the table's lines, and the bars that are missed."""
    lines = [
        "| runs differ by | runs | unchanged: marked | 10% slower, 3 runs ago: found | 5 runs ago | 10 runs ago |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    faults = []
    for name in (*HISTORIES, WALK):
        for length in _LENGTHS:
            draw = random.Random(f"{SEED} {name} {length}")
            marked = statistics.mean(
                bool(change_points(series(name, length, draw))) for _ in range(runs)
            )
            found = [_found(name, length, after, runs, draw) for after in (3, 5, 10)]
            cells = " | ".join("–" if each is None else f"{each:.0%}" for each in found)
            lines.append(f"| {name} | {length} | {marked:.1%} | {cells} |")
            if marked > FALSE_ALARMS and name != WALK:
                faults.append(f"{name}, {length} runs: {marked:.1%} of unchanged histories marked")
    return lines, faults


def _found(name: str, length: int, after: int, runs: int, draw: random.Random) -> float | None:
    """Count how often a change is found, to within a run."""
    at = length - after
    if at < 1:
        return None
    hits = 0
    for _ in range(runs):
        speeds = series(name, length, draw)
        points = change_points(speeds[:at] + [_SLOWDOWN * each for each in speeds[at:]])
        hits += any(abs(point.at - at) <= 1 for point in points)
    return hits / runs


def main() -> None:
    """Print the tables, or put them into the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    compared, wrong = comparisons(asked.runs)
    searched, missed = histories(asked.runs)
    command = f"`python benchmarks/simulate_comparisons.py --runs {asked.runs} --write`"
    text = "\n".join([*compared, "", *searched, "", f"Written by {command}."])
    print(text)
    if asked.write:
        before, rest = PAGE.read_text().split(MARKS[0])
        _, after = rest.split(MARKS[1])
        PAGE.write_text(f"{before}{MARKS[0]}\n\n{text}\n\n{MARKS[1]}{after}")
    for fault in (*wrong, *missed):
        print(f"bar missed: {fault}", file=sys.stderr)
    sys.exit(bool(wrong or missed))


if __name__ == "__main__":
    main()
