"""Do the intervals of scores cover the truth? Simulated traces of known ratios, through the formulas of the package.

Two authors whose solutions are equally fast in truth are measured with noise whose interval is right by
construction, so that what the table shows is what combining does: averaging, choosing the best of several
solutions, running all of it again. `--write` puts the table into docs/measurements/scores.md. Exits with 1 when a bar
is missed where nothing was chosen: 93% covered, no more than 5% of equal authors told apart.

    python benchmarks/simulate_scores.py --runs 1000 --write
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flashinfer_bench.data.rows import TraceRow
from flashinfer_bench.report.scores.names import parse_score
from flashinfer_bench.report.scores.scoring import ScoreLine, score_tables
from flashinfer_bench.report.standing import standing

PAGE = Path(__file__).parents[1] / "docs" / "measurements" / "scores.md"
MARKS = "<!-- simulated scores: begin -->", "<!-- simulated scores: end -->"
SCORES = (
    "arithmetic",
    "geometric",
    "coverage",
    "sol",
    "sol-gap",
    "fast_p>1",
    "win@1.0",
    "kernelbench",
)
DEFINITIONS, WORKLOADS = 4, 5
NOISE = 0.02
LEAST_COVERAGE, MOST_APART = 0.93, 0.05
SEED = 20_261_120
_Z = 1.959964
_LIGHT = 0.5


@dataclass(frozen=True)
class Setup:
    """What is measured, and how often."""

    name: str
    solutions: int = 1
    runs: int = 1
    spread: float = 0.7
    """Of the logarithms of true ratios."""
    has_baseline: bool = False
    is_chosen: bool = False
    """Whether the better of several equals is taken, which no interval of one knows of."""


SETUPS = (
    Setup("one solution, measured once"),
    Setup("the same against a baseline", has_baseline=True),
    Setup("true ratios within 1 ± 3%", spread=0.03),
    Setup("the best of 5 equal solutions", solutions=5, is_chosen=True),
    Setup("run 5 times", runs=5),
)


def rows_of(
    setup: Setup, draw: random.Random, *, noise: float, truths: list[float]
) -> list[TraceRow]:
    """Measure everything, each time against a reference of its own."""
    writers = [(author, number) for author in ("ann", "bob") for number in range(setup.solutions)]
    found = []
    for index, truth in enumerate(truths):
        definition = f"d{index // WORKLOADS}"
        jobs = [(f"{author}-{definition}-{number}", author, truth) for author, number in writers]
        jobs = jobs * setup.runs
        if setup.has_baseline:
            jobs.append((f"baseline-{definition}-0", "baseline", 1.0))
        for solution, author, ratio in jobs:
            measured = _measured(ratio, draw, noise)
            found.append(_row(definition, f"w{index}", solution, author, **measured))
    return found


def _measured(ratio: float, draw: random.Random, noise: float) -> dict[str, Any]:
    latency, reference = math.exp(draw.gauss(0, noise)) / ratio, math.exp(draw.gauss(0, noise))
    alone, both = math.exp(_Z * noise), math.exp(_Z * math.sqrt(2) * noise)
    speedup = reference / latency
    return {
        "latency_ms": latency,
        "latency_interval_ms": (latency / alone, latency * alone),
        "reference_latency_ms": reference,
        "speedup": speedup,
        "speedup_interval": (speedup / both, speedup * both),
        "sol_fraction": _LIGHT / ratio / latency,
    }


def _row(definition: str, workload: str, solution: str, author: str, **measured: Any) -> TraceRow:
    return TraceRow(
        definition=definition, solution=solution, author=author, language="cpp", workload_uuid=workload, axes={},
        status="PASSED", hardware="card", timestamp="2026-11-20T10:00:00+00:00", latency_kind="wall",
        max_relative_error=0.0, max_absolute_error=0.0, violation_count=0, note_count=0, solution_hash=None,
        config_hash=None, trace_id=None, run_id=None, run_label=None, interpreted=False, **measured,
    )  # fmt: skip


def lines_of(setup: Setup, score: str, rows: list[TraceRow]) -> dict[str, ScoreLine]:
    """Score both authors."""
    baselines = {f"d{index}": (f"baseline-d{index}-0",) for index in range(DEFINITIONS)}
    tables = score_tables(
        standing(rows, lambda _: None).tallies["card"],
        baselines if setup.has_baseline else {},
        parse_score(score),
        baseline_author="baseline",
    )
    return {line.author: line for line in tables[0].lines if line.author != "baseline"}


def simulated(setup: Setup, score: str, runs: int) -> tuple[float, float]:
    """Give how often the interval covers the truth, and how often equals are ranked apart."""
    draw = random.Random(f"{SEED} {setup.name} {score}")
    covered, apart = 0, 0
    for _ in range(runs):
        truths = [math.exp(draw.gauss(0, setup.spread)) for _ in range(DEFINITIONS * WORKLOADS)]
        truth = lines_of(setup, score, rows_of(setup, draw, noise=0.0, truths=truths))["ann"].score
        lines = lines_of(setup, score, rows_of(setup, draw, noise=NOISE, truths=truths))
        low, high = lines["ann"].interval or (math.nan, math.nan)
        covered += low - 1e-12 <= truth <= high + 1e-12
        apart += "-" not in lines["ann"].place
    return covered / runs, apart / runs


def main() -> int:
    """Simulate, print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=300, metavar="N", help="for each cell")
    parser.add_argument("--write", action="store_true", help="into docs/measurements/scores.md")
    options = parser.parse_args()
    heads = [f"{setup.name}: covers | ranked apart" for setup in SETUPS]
    lines = [f"| score | {' | '.join(heads)} |", f"|---|{'---:|' * 2 * len(SETUPS)}"]
    missed = 0
    for score in SCORES:
        cells = []
        for setup in SETUPS:
            covers, apart = simulated(setup, score, options.runs)
            cells.append(f"{covers:.1%} | {apart:.1%}")
            is_missed = covers < LEAST_COVERAGE or apart > MOST_APART
            missed += is_missed and not setup.is_chosen
        lines.append(f"| `{score}` | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    command = f"Written by `python benchmarks/simulate_scores.py --runs {options.runs} --write`."
    if options.write:
        before, rest = PAGE.read_text().split(MARKS[0])
        after = rest.split(MARKS[1])[1]
        table = "\n".join(lines)
        PAGE.write_text(f"{before}{MARKS[0]}\n\n{table}\n\n{command}\n\n{MARKS[1]}{after}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
