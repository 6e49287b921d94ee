"""How a solution of the suite is submitted: once, twice, under two names, with two workloads, in rounds of `ab`."""

from __future__ import annotations

import secrets
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flashinfer_bench.attacks.outcomes import Ending, ending_of_rounds, ending_of_step
from flashinfer_bench.bench.benchmark import Benchmark
from flashinfer_bench.bench.parent.pool import LocalPool
from flashinfer_bench.bench.plan import Plan, Selection
from flashinfer_bench.bench.tools.ab import ROUNDS, Ended, Limits, Round, run_ab
from flashinfer_bench.compile.sources import reference_solution
from flashinfer_bench.errors import BenchError, MissingPackageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from flashinfer_bench.attacks.suite import Entry
    from flashinfer_bench.bench.config import BenchmarkConfig
    from flashinfer_bench.data import Definition, Solution, TraceSet

_AGAIN = "__again"
_HONEST = "__honest"
_IN_A_ROUND = {"num_trials": 1, "warmup_runs": 2}


@dataclass(frozen=True)
class Stage:
    """Where entries are played: a benchmark that stays open, the dataset it reads, and its settings."""

    bench: Benchmark
    dataset: TraceSet
    config: BenchmarkConfig


def companions(entry: Entry, definitions: Mapping[str, Definition]) -> Iterator[Solution]:
    """Yield what an entry needs beside its own solution: its honest twin, and its copy under another name."""
    if entry.is_hostile and not entry.honest_twin:
        solution = reference_solution(definitions[entry.victim])
        yield solution.model_copy(update={"name": _twin_of(entry), "author": "attacks"})
    if entry.scenario == "twins":
        yield entry.solution().model_copy(update={"name": entry.name + _AGAIN})


def play(stage: Stage, entry: Entry) -> list[Ending]:
    """Submit an entry as its scenario says; every ending counts."""
    return _SCENARIOS[entry.scenario](stage, entry)


def play_honest_twin(stage: Stage, entry: Entry) -> list[Ending]:
    """Play the same work without the trick, on the same workloads."""
    if entry.scenario == "cold caches":
        with _with_cold_caches(stage) as bench:
            return run(bench, _twin_of(entry))
    return run(stage.bench, _twin_of(entry), has_all_workloads=entry.scenario == "two workloads")


def run(bench: Benchmark, name: str, *, has_all_workloads: bool = False) -> list[Ending]:
    """Run one solution; a fault of the engine is an ending too, and the next job gets new workers."""
    planned = bench.plan(selection=Selection(solutions=(name,)))
    for _, reason in planned.skipped:
        return [Ending(skipped=reason)]
    if not has_all_workloads:
        planned = replace(planned, jobs=planned.jobs[:1])
    endings = []
    try:
        endings += [ending_of_step(step) for step in bench.run(planned)]
    except MissingPackageError:
        raise  # no other job would fare better
    except (BenchError, ValueError) as error:  # a trace that cannot be is a ValueError
        bench.close()
        return [*endings, Ending(broke=f"{type(error).__name__}: {error}")]
    if len(endings) != len(planned.jobs):
        return [Ending(broke=f"{len(endings)} jobs instead of {len(planned.jobs)}")]
    return endings


def _alone(stage: Stage, entry: Entry) -> list[Ending]:
    """Look-alikes run on all sizes in one process, attacks on the first."""
    return run(stage.bench, entry.name, has_all_workloads=not entry.is_hostile)


def _two_workloads(stage: Stage, entry: Entry) -> list[Ending]:
    endings = run(stage.bench, entry.name, has_all_workloads=True)
    if len(endings) == 1 and endings[0].evaluation is not None:
        return [Ending(broke=f"{entry.victim} has one workload here; this needs two")]
    return endings


def _twins(stage: Stage, entry: Entry) -> list[Ending]:
    return [*run(stage.bench, entry.name), *run(stage.bench, entry.name + _AGAIN)]


def _resubmitted(stage: Stage, entry: Entry) -> list[Ending]:
    return [*run(stage.bench, entry.name), *run(stage.bench, entry.name)]


def _same_seed(stage: Stage, entry: Entry) -> list[Ending]:
    config = stage.config.model_copy(update={"seed": secrets.randbits(32)})
    endings = []
    for _ in range(2):
        with Benchmark(stage.dataset, config, device=stage.bench.devices[0]) as bench:
            endings += run(bench, entry.name)
    return endings


def _cold(stage: Stage, entry: Entry) -> list[Ending]:
    with _with_cold_caches(stage) as bench:
        return run(bench, entry.name)


@contextmanager
def _with_cold_caches(stage: Stage) -> Iterator[Benchmark]:
    config = stage.config.model_copy(update={"cache": "cold"})
    with Benchmark(stage.dataset, config, device=stage.bench.devices[0]) as bench:
        yield bench


def _rounds(stage: Stage, entry: Entry) -> list[Ending]:
    """Play rounds as `ab` does; the honest twin is the old one."""
    planned = stage.bench.plan(selection=Selection(solutions=(_twin_of(entry),)))
    for _, reason in planned.skipped:
        return [Ending(skipped=reason)]
    try:
        return [ending_of_rounds(_played(stage, entry, planned))]
    except (BenchError, ValueError) as error:
        return [Ending(broke=f"{type(error).__name__}: {error}")]


def _played(stage: Stage, entry: Entry, planned: Plan) -> list[Round | Ended]:
    job = planned.jobs[0]
    job = replace(job, config=job.config.model_copy(update=_IN_A_ROUND))
    pool = LocalPool(
        stage.bench.devices[:1],
        config=stage.config,
        roots=stage.dataset.roots,
        threads=stage.bench.target.threads,
    )
    with closing(pool):
        return list(run_ab([job], entry.solution(), pool, limits=Limits(ROUNDS)))


def _twin_of(entry: Entry) -> str:
    return entry.honest_twin or entry.victim + _HONEST


_SCENARIOS: dict[str, Callable[[Stage, Entry], list[Ending]]] = {
    "alone": _alone,
    "twins": _twins,
    "resubmitted": _resubmitted,
    "same seed": _same_seed,
    "two workloads": _two_workloads,
    "cold caches": _cold,
    "rounds": _rounds,
}
