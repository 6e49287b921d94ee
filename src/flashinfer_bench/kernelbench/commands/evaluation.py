"""`kernelbench eval`: which candidates are meant, and how the engine's progress is shown."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flashinfer_bench.cli import log, screen
from flashinfer_bench.cli.measure.kept_logs import keep_logs
from flashinfer_bench.cli.measure.progress import Lines, choose_view
from flashinfer_bench.cli.measure.running import Collected, exit_code_of, measure
from flashinfer_bench.errors import DatasetError, UsageError
from flashinfer_bench.kernelbench.library import find
from flashinfer_bench.kernelbench.samples import Candidate, candidates_in, misnamed_in
from flashinfer_bench.kernelbench.screens.evaluation import eval_page

if TYPE_CHECKING:
    from flashinfer_bench.bench.benchmark import Step
    from flashinfer_bench.cli.measure.progress import ProgressView
    from flashinfer_bench.kernelbench.evaluating import Settings
    from flashinfer_bench.kernelbench.results import EndedJob, EvalReport
    from flashinfer_bench.report.jobs import JobResult

_KNOWN_BASELINES = ("eager", "compile")
_KERNELBENCH_SEED = 42
SETTINGS = (
    *("warmup_runs", "iterations", "num_trials", "rtol", "atol"),
    *("timeout_seconds", "build_timeout_seconds", "threads", "clock", "cache"),
)
"""What may be set of a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalOptions:
    """What the user asked for."""

    problem: str | None
    candidate: Path | None
    samples: Path | None
    dataset: Path
    baselines: str
    seeds: tuple[int, ...]
    device: str
    settings: dict[str, Any]
    as_json: bool


@dataclass(slots=True)
class _Kept(Collected):
    """Keeps what the engine said of each job, too."""

    ended: list[EndedJob] = field(default_factory=list)

    def add(self, step: Step) -> JobResult | None:
        """Sort a finished job in."""
        from flashinfer_bench.kernelbench.results import EndedJob  # noqa: PLC0415  # pydantic

        result = Collected.add(self, step)
        if result is not None:
            self.ended.append(EndedJob(result, step))
        return result


def evaluate(options: EvalOptions) -> int:
    """Judge and time what was asked for; 1 where a candidate is not right."""
    from flashinfer_bench.kernelbench.evaluating import prepare, report_of  # noqa: PLC0415  # pydantic
    from flashinfer_bench.kernelbench.results import for_document  # noqa: PLC0415  # pydantic

    candidates = _candidates(options)
    settings = _settings(options)
    with tempfile.TemporaryDirectory(prefix="flashinfer-bench-kernelbench-") as folder:
        prepared = prepare(candidates, settings, Path(folder), log.inform)
        collected = _Kept(prepared.benchmark.plan())
        measure(prepared.benchmark, collected, _view(collected, options))
    faults = tuple(collected.faults.values())
    report = report_of(prepared, settings, collected.ended, collected.skipped, faults)
    report = replace(report, log_file=_keep_logs(report, options))
    exit_code = _exit_code(report, collected)
    if options.as_json:
        screen.show_json(
            {"schema_version": 1, "exit_code": exit_code, "eval": for_document(report)}
        )
    else:
        screen.show(eval_page(report))
    return exit_code


def _keep_logs(report: EvalReport, options: EvalOptions) -> str | None:
    """Write the logs to a file, one for each file or folder of candidates; None where all are right."""
    logs = [
        (f"{each.problem}, sample {each.sample_id}: {each.status}", each.log)
        for each in report.samples
        if not each.correctness
    ]
    logs += [
        (f"{each.problem}, {each.name}: {each.status}", each.log)
        for each in report.baselines
        if each.status != "PASSED" and each.log
    ]
    path = (options.samples or options.candidate or Path()).resolve()
    return keep_logs(path.name, str(path), logs)


def _candidates(options: EvalOptions) -> list[Candidate]:
    if options.samples is not None:
        if options.candidate is not None:
            raise UsageError("give one candidate's file, or a folder with --samples, not both")
        found = candidates_in(options.samples, options.dataset, only=options.problem)
        if others := misnamed_in(options.samples):
            names = ", ".join(path.name for path in others)
            log.inform(
                f"no samples by their names (level_1_problem_19_sample_0_kernel.py): {names}"
            )
        return found
    if options.problem is None or options.candidate is None:
        raise UsageError(
            "name a problem and a candidate's file, or a folder of them with --samples"
        )
    if not options.candidate.is_file():
        raise UsageError(f"no file {options.candidate}")
    problem = find(options.problem, options.dataset)
    return [Candidate(problem.resolve(), 0, options.candidate.resolve())]


def _settings(options: EvalOptions) -> Settings:
    from flashinfer_bench.kernelbench.evaluating import Settings  # noqa: PLC0415  # pydantic

    names = tuple(dict.fromkeys(name.strip() for name in options.baselines.split(",")))
    for name in names:
        if name not in _KNOWN_BASELINES:
            known = " and ".join(_KNOWN_BASELINES)
            raise UsageError(f"no baseline named {name!r}; there are {known}")
    return Settings(
        device=options.device,
        seeds=tuple(dict.fromkeys(options.seeds)) or (_KERNELBENCH_SEED,),
        baselines=names,
        overrides=options.settings,
    )


def _exit_code(report: EvalReport, collected: Collected) -> int:
    if report.faults:
        return DatasetError.exit_code
    if report.samples and not all(sample.correctness for sample in report.samples):
        return 1
    return 0 if report.samples else exit_code_of(collected)


def _view(collected: Collected, options: EvalOptions) -> ProgressView:
    """Show progress where it can be wiped away; the page has a line per candidate anyway."""
    if options.as_json or not screen.is_terminal():
        return Lines(to_stderr=True, is_quiet=log.is_quiet(click.get_current_context()))
    return choose_view(len(collected.plan.jobs), as_json=False)
