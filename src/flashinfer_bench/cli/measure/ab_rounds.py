"""The rounds of `ab`: played on one device, with a line on a terminal that says how far they are."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import click

from flashinfer_bench.cli import log, screen
from flashinfer_bench.cli.measure.progress import waiting_text
from flashinfer_bench.data.wording import axes_text

if TYPE_CHECKING:
    from flashinfer_bench.bench.benchmark import Benchmark
    from flashinfer_bench.bench.parent.pool import Progress
    from flashinfer_bench.bench.plan import Job, Plan
    from flashinfer_bench.bench.tools.ab import Ended, Limits, Round
    from flashinfer_bench.data import Solution


@dataclass(slots=True)
class AbOutcomes:
    """What became of the workloads so far."""

    interpreted: tuple[str, ...] = ()
    """Which of the two run in a way whose times mean nothing."""
    seed: int = 0
    rounds: dict[str, list[Round]] = field(default_factory=dict)
    ended: list[Ended] = field(default_factory=list)

    def add(self, step: Round | Ended) -> None:
        """Keep a round; a workload that ended has none."""
        from flashinfer_bench.bench.tools.ab import Ended  # noqa: PLC0415  # pydantic

        if isinstance(step, Ended):
            self.ended.append(step)
            self.rounds.pop(step.workload.uuid, None)
        else:
            self.rounds.setdefault(step.workload.uuid, []).append(step)


def play(
    benchmark: Benchmark, plan: Plan, new: Solution, limits: Limits, found: AbOutcomes
) -> None:
    """Run all rounds on one device; one is enough where times mean nothing."""
    from flashinfer_bench.bench.parent.pool import LocalPool  # noqa: PLC0415  # pydantic
    from flashinfer_bench.bench.tools.ab import Limits, run_ab  # noqa: PLC0415  # pydantic

    jobs = _jobs(plan)
    if found.interpreted:
        limits = Limits(1)
    pool = LocalPool(
        benchmark.devices[:1],
        config=benchmark.config,
        roots=benchmark.get_trace_set().roots,
        threads=benchmark.target.threads,
    )
    found.seed = pool.key
    ticker = _Ticker(limits.rounds * len(jobs))
    try:
        for step in run_ab(jobs, new, pool, limits=limits, observe=ticker.observe):
            found.add(step)
            ticker.count()
    finally:
        ticker.wipe()
        pool.close()


def _jobs(plan: Plan) -> list[Job]:
    """Take the jobs of the old one, with as few samples as either of the two is to have."""
    configs = {job.workload.uuid: job.config for job in plan.jobs if job.solution.name == "new"}
    return [
        replace(
            job,
            config=min(job.config, configs[job.workload.uuid], key=lambda each: each.iterations),
        )
        for job in plan.jobs
        if job.solution.name == "old"
    ]


class _Ticker:
    """One line on a terminal's stderr that says how far it is."""

    def __init__(self, total: int) -> None:
        self._total, self._done = total, 0
        self._is_shown = screen.has_live_stderr() and not log.is_quiet(click.get_current_context())

    def observe(self, event: Progress) -> None:
        """Say what waits, or what runs."""
        from flashinfer_bench.bench.parent.pool import Started, Waiting  # noqa: PLC0415  # pydantic

        match event:
            case Waiting(device=device):
                log.inform(waiting_text(device))
            case Started(job=job) if self._is_shown:
                axes = axes_text(job.workload.axes, none="")
                click.echo(f"\r\x1b[K{self._done}/{self._total} {axes}", nl=False, err=True)
            case Started():
                pass

    def count(self) -> None:
        """A job is done."""
        self._done += 1

    def wipe(self) -> None:
        """Leave nothing behind."""
        if self._is_shown:
            click.echo("\r\x1b[K", nl=False, err=True)
