"""Are `report compare` and `report history` right? Simulated runs of equal and of different code, told apart.

Two runs of equal code, on the made-up machines of `simulate_intervals.py`, go through `report compare` as recorded runs
do: one job, nine, a hundred, whose processes differ from run to run as a definition's do. Then whole histories,
without a change and with one. `--write` puts the tables into docs/measurements/comparisons.md. Exits with 1 when a
bar is missed: no more than 1% of equal jobs called different, 5% where processes differ five times as much as their
blocks; 5% of all together and of `slower` gates; no more than 5% of histories without a change marked.

    python benchmarks/simulate_comparisons.py --runs 300 --write
"""

from __future__ import annotations

import argparse
import itertools
import math
import random
import statistics
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from simulate_intervals import (
    MACHINES,
    RUN,
    SEED,
    Machine,
    _blocks,
    _normal,
    _per_process,
)

from flashinfer_bench.data.rows import TraceRow
from flashinfer_bench.report.compare.comparing import compare
from flashinfer_bench.report.compare.gates import check_gates, parse_gate
from flashinfer_bench.report.compare.ratios import Basis
from flashinfer_bench.report.compare.result import Kind
from flashinfer_bench.report.compare.sides import Side
from flashinfer_bench.stats.blocks import block_ratios
from flashinfer_bench.stats.change_points import FALSE_ALARMS, change_points
from flashinfer_bench.stats.intervals import series_interval
from flashinfer_bench.stats.verdicts import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from flashinfer_bench.report.compare.result import ComparisonReport

PAGE = Path(__file__).parents[1] / "docs" / "measurements" / "comparisons.md"
MARKS = "<!-- simulated comparisons: begin -->", "<!-- simulated comparisons: end -->"
MOST_FALSE = 0.01
MOST_FALSE_TOGETHER = 0.05
_DIFFERENT = (Verdict.FASTER, Verdict.SLOWER)
_LENGTHS = (10, 20, 50, 100)
_SLOWDOWNS = (1.05, 1.1)
_CHANGES = (1.05, 1.1, 2.0)
_ENOUGH = 20
_GATE = parse_gate("slower>3%")
AS_MEASURED = Machine(
    "as on a GPU", "log-normal noise of 2.5%, processes differ by 0.75%",
    _normal(0.025), _per_process(0.0075), differs_by_process=True,
)  # fmt: skip
"""Two runs lie 2.5 times as far apart as their blocks say, as was measured: a quiet card."""
_BEYOND = "bimodal processes"
"""They differ seven times as much as their blocks, by all or nothing: for `ab`, or for several runs."""
_WHOLE = ("as on a GPU", "iid", "drift", "bursts on one", "processes differ", "all at once")


@dataclass(frozen=True)
class Dataset:
    """How many jobs a run has."""

    definitions: int
    workloads: int

    @property
    def jobs(self) -> int:
        """Of all definitions."""
        return self.definitions * self.workloads


SIZES = Dataset(1, 1), Dataset(3, 3), Dataset(10, 10)


def side(
    machine: Machine, size: Dataset, when: str, draw: np.random.Generator, slower: float = 1.0
) -> Side:
    """Run a dataset: the processes of a definition differ from those of other runs alike for all its workloads."""
    rows: list[TraceRow] = []
    samples: dict[str, dict[str, list[float]]] = {}
    for definition in range(size.definitions):
        own = _own(machine, draw)
        for workload in range(size.workloads):
            own = own if machine.differs_by_process else _own(machine, draw)
            name = f"{when} {definition} {workload}"
            moments = machine.moment(draw, RUN.shape)[0]
            blocks = _blocks(RUN, moments, [each[0] for each in own], draw)
            reference, solution = ([statistics.median(block) for block in each] for each in blocks)
            rows.append(_row(name, reference, [slower * each for each in solution]))
            taken = [list(itertools.chain.from_iterable(each)) for each in blocks]
            samples[name] = {"reference": taken[0], "solution": [slower * x for x in taken[1]]}
    return Side(when, rows, lambda _: None, lambda _, __: samples)


def several(
    machine: Machine, count: int, when: str, draw: np.random.Generator, slower: float
) -> Side:
    """Run one job several times."""
    runs = [side(machine, SIZES[0], f"{when}{number}", draw, slower) for number in range(count)]
    samples = {key: value for each in runs for key, value in each.samples_of("", []).items()}
    rows = [row for each in runs for row in each.rows]
    return Side(when, rows, lambda _: None, lambda _, __: samples)


def compared_runs(
    machine: Machine, count: int, draw: np.random.Generator, slower: float, *, times: int
) -> list[ComparisonReport]:
    """Compare one job, run so often on each side, many times."""
    return [
        compare(
            several(machine, count, "1", draw, 1.0),
            several(machine, count, "2", draw, slower),
            Kind.DATASETS,
        )
        for _ in range(times)
    ]


def _own(machine: Machine, draw: np.random.Generator) -> list[np.ndarray]:
    shape = (1, len(RUN.sizes), max(RUN.sizes))
    return [np.zeros(shape) if machine.own is None else machine.own(draw, shape) for _ in range(2)]


def _row(name: str, reference: list[float], solution: list[float]) -> TraceRow:
    when, definition, workload = name.split()
    ratios = block_ratios([[each] for each in reference], [[each] for each in solution])
    return TraceRow(
        definition=definition, solution="s", author=None, language=None, workload_uuid=workload, axes={},
        status="PASSED", hardware="card", timestamp=when, latency_ms=statistics.median(solution),
        reference_latency_ms=statistics.median(reference), speedup=statistics.median(ratios),
        speedup_interval=series_interval(ratios), latency_kind="wall", max_relative_error=None,
        max_absolute_error=None, violation_count=0, note_count=0, solution_hash=None, config_hash=None,
        trace_id=name, run_id=when, run_label=None, interpreted=False,
        latency_interval_ms=series_interval(solution), reference_interval_ms=series_interval(reference),
        block_count=len(solution),
    )  # fmt: skip


@dataclass(frozen=True)
class Found:
    """What became of many comparisons."""

    jobs: float
    """Share of jobs called faster or slower."""
    together: float
    """Share of comparisons whose jobs together were called so."""
    gates: float
    """Share of comparisons that break the gate."""
    covered: float
    """Share of jobs whose interval holds the truth."""
    width: float


def found(
    machine: Machine, size: Dataset, runs: int, *, slower: float = 1.0, by: Basis | None = None
) -> Found:
    """Compare two runs many times; the same seed gives the same."""
    draw = np.random.default_rng([SEED, size.jobs, round(1000 * slower), len(machine.name)])
    every = [
        compare(
            side(machine, size, "1", draw),
            side(machine, size, "2", draw, slower),
            Kind.DATASETS,
            by=by,
        )
        for _ in range(runs)
    ]
    jobs = [job for each in every for job in each.jobs]
    ends = [job.interval or (0.0, math.inf) for job in jobs]
    return Found(
        jobs=statistics.mean(job.verdict in _DIFFERENT for job in jobs),
        together=statistics.mean(each.overall[0].verdict in _DIFFERENT for each in every),
        gates=statistics.mean(_is_broken(each) for each in every),
        covered=statistics.mean(low <= 1 / slower <= high for low, high in ends),
        width=statistics.median(high / low - 1 for low, high in ends),
    )


def several_runs(runs: int) -> tuple[list[str], list[str]]:
    """Compare one job by as many runs as there are of it."""
    lines = [
        "| machine | runs of each side | equal called different | width | 5% slower: found | 10% |",
        f"|---|{'---:|' * 5}",
    ]
    faults = []
    for machine in (AS_MEASURED, *(each for each in MACHINES if each.differs_by_process)):
        for count in (2, 4, 8):
            draw = np.random.default_rng([SEED, count, len(machine.name)])
            rates, widths = [], []
            for slower in (1.0, *_SLOWDOWNS):
                every = compared_runs(machine, count, draw, slower, times=runs)
                jobs = [each.jobs[0] for each in every]
                rates.append(statistics.mean(job.verdict in _DIFFERENT for job in jobs))
                widths += [job.interval[1] / job.interval[0] - 1 for job in jobs if job.interval]
            cells = " | ".join(f"{rate:.0%}" for rate in rates[1:])
            width = f"{statistics.median(widths):.0%}"
            lines.append(f"| {machine.name} | {count} | {rates[0]:.1%} | {width} | {cells} |")
            if machine.name != _BEYOND and rates[0] > MOST_FALSE_TOGETHER:
                faults.append(f"{machine.name}, {count} runs: {rates[0]:.1%} called different")
    return lines, faults


def _is_broken(comparison: ComparisonReport) -> bool:
    (result,) = check_gates(comparison, [_GATE])
    return not result.holds


def one_job(runs: int) -> tuple[list[str], list[str]]:
    """Compare on every machine, a job alone; the table's lines, and the bars that are missed."""
    lines = [
        (
            "| machine | equal called different | covers | width | by latency: called different | covers | width | 5% "
            "slower: found | 10% | 2x |"
        ),
        f"|---|{'---:|' * 9}",
    ]
    faults = []
    for machine in (AS_MEASURED, *MACHINES):
        ours = found(machine, SIZES[0], runs)
        latency = found(machine, SIZES[0], runs, by=Basis.LATENCY)
        hits = [found(machine, SIZES[0], runs, slower=slower).jobs for slower in _CHANGES]
        cells = [
            each
            for one in (ours, latency)
            for each in (f"{one.jobs:.1%}", f"{one.covered:.0%}", f"{one.width:.0%}")
        ]
        lines.append(
            f"| {machine.name} | {' | '.join([*cells, *(f'{hit:.0%}' for hit in hits)])} |"
        )
        if machine.name != _BEYOND and max(ours.jobs, latency.jobs) > MOST_FALSE:
            faults.append(f"{machine.name}: {ours.jobs:.1%} of equal jobs called different")
    return lines, faults


def whole_runs(runs: int, most_jobs: int) -> tuple[list[str], list[str]]:
    """Compare runs of nine and, if so many are wanted, a hundred jobs."""
    lines = [
        (
            "| machine | jobs | equal code: of the jobs called different | covers | all together | `slower>3%` breaks "
            "| width | 10% slower: of the jobs found | all together | gate | 2x: of the jobs found |"
        ),
        f"|---|{'---:|' * 10}",
    ]
    faults = []
    for machine in (AS_MEASURED, *MACHINES):
        if machine.name not in _WHOLE:
            continue
        for size in (each for each in SIZES[1:] if each.jobs <= most_jobs):
            count = max(40, runs // size.jobs * 3)
            equal = found(machine, size, count)
            ten, double = (found(machine, size, count, slower=slower) for slower in (1.1, 2.0))
            lines.append(
                f"| {machine.name} | {size.jobs} | {equal.jobs:.1%} | {equal.covered:.0%} | {equal.together:.1%} | "
                f"{equal.gates:.1%} | {equal.width:.0%} | {ten.jobs:.0%} | {ten.together:.0%} | {ten.gates:.0%} | "
                f"{double.jobs:.0%} |"
            )
            is_false = equal.jobs > MOST_FALSE
            if is_false or max(equal.together, equal.gates) > MOST_FALSE_TOGETHER:
                faults.append(f"{machine.name}, {size.jobs} jobs: {equal}")
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
        (
            "| runs differ by | runs | unchanged: marked | 5% slower, 5 runs ago: found | 10 runs ago | 10% slower, 3 "
            "runs ago | 5 runs ago | 10 runs ago | its interval covers |"
        ),
        f"|---|{'---:|' * 8}",
    ]
    faults = []
    for name in (*HISTORIES, WALK):
        for length in _LENGTHS:
            draw = random.Random(f"{SEED} {name} {length}")
            marked = statistics.mean(
                bool(change_points(series(name, length, draw))) for _ in range(runs)
            )
            steps = [(1.05, 5), (1.05, 10), (1.1, 3), (1.1, 5), (1.1, 10)]
            every = [_dated(name, length, step, runs, draw) for step in steps]
            cells = " | ".join("–" if each is None else f"{each[0]:.0%}" for each in every)
            covered = [each[1] for each in every if each is not None and each[1] is not None]
            lines.append(f"| {name} | {length} | {marked:.1%} | {cells} | {_mean_text(covered)} |")
            if marked > FALSE_ALARMS and name != WALK:
                faults.append(f"{name}, {length} runs: {marked:.1%} of unchanged histories marked")
    return lines, faults


def _mean_text(shares: list[float]) -> str:
    return f"{statistics.mean(shares):.0%}" if shares else "–"


def _dated(
    name: str, length: int, step: tuple[float, int], runs: int, draw: random.Random
) -> tuple[float, float | None] | None:
    """Count how often a change is found, to within a run, and how often its interval then holds the truth."""
    slower, after = step
    at = length - after
    if at <= after // 2:
        return None
    hits: list[bool] = []
    for _ in range(runs):
        speeds = series(name, length, draw)
        points = change_points(speeds[:at] + [each / slower for each in speeds[at:]])
        near = [point for point in points if abs(point.at - at) <= 1]
        hits += [
            low <= 1 / slower <= high
            for low, high in (each.interval or (0.0, math.inf) for each in near[:1])
        ]
    return len(hits) / runs, statistics.mean(hits) if len(hits) >= _ENOUGH else None


def main() -> None:
    """Print the tables, or put them into the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--most-jobs", type=int, default=SIZES[-1].jobs, help="of a whole run")
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    with ProcessPoolExecutor(4) as pool:
        asked_for = [
            pool.submit(one_job, asked.runs),
            pool.submit(several_runs, asked.runs),
            pool.submit(whole_runs, asked.runs, asked.most_jobs),
            pool.submit(histories, asked.runs),
        ]
        tables = [each.result() for each in asked_for]
    most = f" --most-jobs {asked.most_jobs}" if asked.most_jobs < SIZES[-1].jobs else ""
    command = f"`python benchmarks/simulate_comparisons.py --runs {asked.runs}{most} --write`"
    text = "\n".join(
        [*(line for lines, _ in tables for line in [*lines, ""]), f"Written by {command}."]
    )
    print(text)
    if asked.write:
        before, rest = PAGE.read_text().split(MARKS[0])
        _, after = rest.split(MARKS[1])
        PAGE.write_text(f"{before}{MARKS[0]}\n\n{text}\n\n{MARKS[1]}{after}")
    faults = [fault for _, missed in tables for fault in missed]
    for fault in faults:
        print(f"bar missed: {fault}", file=sys.stderr)
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
