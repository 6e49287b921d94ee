"""What does `compare` say of recorded runs whose code is known? All pairs of runs, one run on each side.

A run is told by its folder and its label (or its id). All are taken for runs of equal code; `--changed` names those
(globs of labels) whose kernels, of `--kernels` alone if given, were made slower.

    python benchmarks/recorded_comparisons.py tests/fixtures/busy_runs --changed 's*'
    python benchmarks/recorded_comparisons.py card0 card1 --threshold 0.05

A line for each: equal code against equal code, and equal code against changed. Exits with 1 when a bar is missed: of
equal code 1% of jobs called different, 5% of comparisons with one, 5% with a broken gate; of changed code all found.
"""

from __future__ import annotations

import argparse
import fnmatch
import itertools
import math
import statistics
import sys
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashinfer_bench.cli.datasets import samples_reader
from flashinfer_bench.data.trace_set import TraceSet
from flashinfer_bench.report.compare.comparing import compare
from flashinfer_bench.report.compare.gates import check_gates, parse_gate
from flashinfer_bench.report.compare.result import Kind
from flashinfer_bench.report.compare.sides import Side
from flashinfer_bench.stats.verdicts import THRESHOLD, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from flashinfer_bench.data.rows import TraceRow
    from flashinfer_bench.report.compare.result import ComparedJob, ComparisonReport

MOST_FALSE = 0.01
MOST_FALSE_TOGETHER = 0.05
_DIFFERENT = (Verdict.FASTER, Verdict.SLOWER)
_GATE = parse_gate("slower>3%")


@dataclass(frozen=True)
class Recorded:
    """One run."""

    name: str
    label: str
    side: Side


def recorded(folders: Iterable[str]) -> list[Recorded]:
    """Read the runs of datasets' folders; traces alone are enough."""
    runs = []
    for folder in folders:
        trace_set = TraceSet.from_path(folder)
        by_run: defaultdict[str, list[TraceRow]] = defaultdict(list)
        for row in trace_set.rows():
            by_run[row.run_label or row.run_id or ""].append(row)
        for label, rows in sorted(by_run.items()):
            name = f"{folder} {label}"
            side = Side(name, rows, lambda _: None, samples_reader(trace_set))
            runs.append(Recorded(name, label, side))
    return runs


def compared(
    pairs: Iterable[tuple[Recorded, Recorded]], threshold: float
) -> list[ComparisonReport]:
    """Compare the sides of each pair."""
    return [compare(one.side, two.side, Kind.DATASETS, threshold=threshold) for one, two in pairs]


def share(found: Iterable[bool]) -> float:
    """Give the share of true ones; not a number of none."""
    known = list(found)
    return statistics.mean(known) if known else math.nan


def is_broken(comparison: ComparisonReport) -> bool:
    """Tell whether the gate of the documentation breaks."""
    (result,) = check_gates(comparison, [_GATE])
    return not result.holds


def equal_line(comparisons: Sequence[ComparisonReport]) -> tuple[str, list[str]]:
    """Say what became of equal code, and which bars are missed."""
    jobs = [job for each in comparisons for job in each.jobs]
    different = share(job.verdict in _DIFFERENT for job in jobs)
    any_different = share(
        any(job.verdict in _DIFFERENT for job in each.jobs) for each in comparisons
    )
    gates = share(map(is_broken, comparisons))
    ends = [job.interval or (0.0, math.inf) for job in jobs]
    faults = [
        f"{what}: {rate:.1%}"
        for what, rate, most in (
            ("equal jobs called different", different, MOST_FALSE),
            ("comparisons with one", any_different, MOST_FALSE_TOGETHER),
            ("gates broken by equal code", gates, MOST_FALSE_TOGETHER),
        )
        if rate > most
    ]
    return (
        f"equal code, {len(comparisons)} comparisons, {len(jobs)} jobs: called different {different:.1%} of jobs, "
        f"in {any_different:.1%} of comparisons; slower>3% breaks {gates:.1%}; SAME "
        f"{share(job.verdict is Verdict.SAME for job in jobs):.0%}; covers "
        f"{share(low <= 1 <= high for low, high in ends):.1%}; width "
        f"{statistics.median(high / low - 1 if low else math.inf for low, high in ends):.1%}"
    ), faults


def changed_line(
    comparisons: Sequence[ComparisonReport], kernels: Sequence[str]
) -> tuple[str, list[str]]:
    """Say what became of changed code."""

    def is_changed(job: ComparedJob) -> bool:
        return any(fnmatch.fnmatch(job.place.definition, each) for each in kernels)

    jobs = [job for each in comparisons for job in each.jobs]
    found = share(job.verdict is Verdict.SLOWER for job in jobs if is_changed(job))
    beside = share(job.verdict in _DIFFERENT for job in jobs if not is_changed(job))
    gates = share(map(is_broken, comparisons))
    faults = [f"gates broken by changed code: {gates:.1%}"] if gates < 1 else []
    return (
        f"changed code, {len(comparisons)} comparisons: slower>3% breaks {gates:.1%}; found {found:.0%} of changed "
        f"jobs; called different {beside:.1%} of the others"
    ), faults


def main() -> int:
    """Compare all pairs; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", metavar="FOLDER")
    parser.add_argument("--changed", metavar="LABEL", default="", help="runs whose code is slower")
    parser.add_argument("--kernels", nargs="+", metavar="DEFINITION", default=["*"])
    parser.add_argument("--threshold", type=float, default=THRESHOLD)
    asked = parser.parse_args()
    runs = recorded(asked.folders)
    changed = [each for each in runs if fnmatch.fnmatch(each.label, asked.changed)]
    equal = [each for each in runs if each not in changed]
    alike = [*itertools.combinations(equal, 2), *itertools.combinations(changed, 2)]
    line, faults = equal_line(compared(alike, asked.threshold))
    print(line)
    if changed:
        pairs = itertools.product(equal, changed)
        line, missed = changed_line(compared(pairs, asked.threshold), asked.kernels)
        print(line)
        faults += missed
    for fault in faults:
        print(f"bar missed: {fault}", file=sys.stderr)
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
