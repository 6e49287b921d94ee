"""Checks of a dataset that run code: names of torch looked up, baselines and references run once."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections import defaultdict
from typing import TYPE_CHECKING

from flashinfer_bench.errors import BenchError, MissingPackageError, WorkerError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from flashinfer_bench.bench import BenchmarkConfig
    from flashinfer_bench.bench.benchmark import Step
    from flashinfer_bench.data import Definition, Solution, TraceSet
    from flashinfer_bench.data.rules import Finding, Level
    from flashinfer_bench.data.rules.snapshot import Snapshot

_LOOK_UP_S = 120
_BASELINE = "baseline"
_SETTINGS = {
    "warmup_runs": 2,
    "iterations": 5,
    "num_trials": 1,
    "profile_baseline": False,
    "racing": False,
}


def has_torch() -> bool:
    """Whether code that uses torch can run here."""
    return importlib.util.find_spec("torch") is not None


def require_torch(needed_for: str) -> None:
    """Refuse to run code where torch is not installed."""
    if not has_torch():
        raise MissingPackageError("torch", extra="torch", needed_for=needed_for)


def misspelt_names(dataset: Snapshot, checks: Sequence[str]) -> Iterator[Finding]:
    """Find names that references and profiles ask of torch, and that it does not have.

    Codes: DEF-17 and PRO-06.
    """
    from flashinfer_bench.data.rules import OBSERVATIONS  # noqa: PLC0415  # pydantic
    from flashinfer_bench.data.rules.python_source import torch_names  # noqa: PLC0415

    used = [
        (code, path, definition, what, name)
        for code, path, definition, what, source in _sources(dataset, checks)
        for name in torch_names(source)
    ]
    missing = _missing(sorted({name.dotted for *_, name in used}))
    for code, path, definition, what, name in used:
        if name.dotted in missing:
            near = missing[name.dotted]
            hint = f"; did you mean {near!r}?" if near else ""
            message = f"line {name.line} of {what}: there is no {name.dotted!r}{hint}"
            yield OBSERVATIONS[code].finding(message, definition, path=path)


def _sources(
    dataset: Snapshot, checks: Sequence[str]
) -> Iterator[tuple[str, str, str | None, str, str]]:
    from flashinfer_bench.data import KernelSignature  # noqa: PLC0415  # pydantic

    for document in dataset.definition_files if "definition" in checks else ():
        if document.entity is not None:
            reference, name = document.entity.reference, document.entity.name
            yield "DEF-17", document.path, name, "the reference", reference
    for profile in dataset.profile_files if "profile" in checks else ():
        for use in profile.entity.kernels if profile.entity is not None else ():
            if isinstance(use.kernel, KernelSignature):
                what = f"the code of {use.kernel.name!r}"
                yield "PRO-06", profile.path, None, what, use.kernel.code


def _missing(names: list[str]) -> dict[str, str]:
    """Ask a process that may load torch."""
    if not names:
        return {}
    command = [sys.executable, "-m", "flashinfer_bench.tensors.names"]
    done = subprocess.run(
        command,
        input=json.dumps(names),
        capture_output=True,
        text=True,
        timeout=_LOOK_UP_S,
        check=False,
    )
    if done.returncode != 0:
        last = done.stderr.strip().rpartition("\n")[2]
        raise WorkerError(f"names of torch cannot be looked up: {last}")
    missing: dict[str, str] = json.loads(done.stdout)
    return missing


def benchmark_findings(
    dataset: Snapshot,
    names: Sequence[str],
    config: BenchmarkConfig | None = None,
    *,
    device: str,
) -> Iterator[Finding]:
    """Run the reference and the baselines of each definition once, quickly; nothing is saved.

    They are judged by `config`, or by the bundled defaults.

    Codes: BEN-02 no workloads, BEN-03 no baseline, BEN-04 the engine gave up, BEN-05 a baseline,
    BEN-06 a reference.
    """
    from flashinfer_bench.data.rules import Level  # noqa: PLC0415  # pydantic

    require_torch("the check `benchmark`")
    for name in names:
        definition = dataset.definitions.get(name)
        if definition is None:
            continue
        baselines = baselines_of(dataset, name)
        if name not in dataset.workloads_by_definition:
            yield _finding("BEN-02", Level.WARNING, name, "no workloads to run")
            continue
        if not baselines:
            yield _finding("BEN-03", Level.WARNING, name, "no baseline to run")
        try:
            yield from _run(_scratch(dataset, definition, baselines), definition, config, device)
        except BenchError as error:
            yield _finding("BEN-04", Level.ERROR, name, f"the run ended: {error}")


def baselines_of(dataset: Snapshot, name: str) -> list[Solution]:
    """Give the baselines of a definition."""
    solutions = dataset.solutions_by_definition.get(name, [])
    return [solution for solution in solutions if solution.author == _BASELINE]


def _scratch(dataset: Snapshot, definition: Definition, baselines: list[Solution]) -> TraceSet:
    """Make a trace set of one definition in memory; files are read from the dataset's root."""
    from flashinfer_bench.compile.sources import reference_solution  # noqa: PLC0415  # pydantic
    from flashinfer_bench.data import TraceSet  # noqa: PLC0415

    documents = dataset.workloads_by_definition[definition.name]
    workloads = [each.entity for each in documents if each.entity is not None]
    solutions = [*baselines, reference_solution(definition)]
    return TraceSet(
        dataset.root,
        {definition.name: definition},
        {definition.name: solutions},
        {definition.name: workloads},
    )


def _run(
    scratch: TraceSet, definition: Definition, config: BenchmarkConfig | None, device: str
) -> Iterator[Finding]:
    """Run all jobs; one finding per way in which a solution failed, or that it passed."""
    from flashinfer_bench.bench import Benchmark, BenchmarkConfig  # noqa: PLC0415  # pydantic
    from flashinfer_bench.data.rules import Level  # noqa: PLC0415

    quick = (config or BenchmarkConfig.default()).model_copy(update=_SETTINGS)
    ended: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    with Benchmark(scratch, quick, device=device) as benchmark:
        planned = benchmark.plan()
        for step in benchmark.run(planned, dump_traces=False):
            ended[step.job.solution.name, how_it_ended(step)].append(step.job.workload.uuid)
    for job, reason in planned.skipped:
        ended[job.solution.name, f"was skipped: {reason}"].append(job.workload.uuid)
    for (name, how), uuids in ended.items():
        is_reference = name.endswith("__reference")
        code, who = (
            ("BEN-06", "the reference") if is_reference else ("BEN-05", f"baseline {name!r}")
        )
        level = Level.INFO if how == "passed" or how.startswith("was skipped") else Level.ERROR
        count = f"{len(uuids)} workload{'' if len(uuids) == 1 else 's'}"
        yield _finding(code, level, definition.name, f"{who} {how} on {count}")


def how_it_ended(step: Step) -> str:
    """Say in a few words how a job ended; `passed` if it did."""
    from flashinfer_bench.bench.outcomes import DatasetFault, Skipped  # noqa: PLC0415  # pydantic
    from flashinfer_bench.text.tables import first_line  # noqa: PLC0415

    if step.trace is not None and step.trace.evaluation is not None:
        evaluation = step.trace.evaluation
        if step.trace.is_successful():
            return "passed"
        last = evaluation.log.strip().rpartition("\n")[2]
        return f"ended with {evaluation.status} ({first_line(last)})"
    match step.outcome:
        case Skipped(reason=reason):
            return f"was skipped: {reason}"
        case DatasetFault(explanation=explanation):
            return f"failed, the dataset is at fault: {first_line(explanation)}"
        case _:
            return "left no trace"


def _finding(code: str, level: Level, definition: str, message: str) -> Finding:
    from flashinfer_bench.data.rules import OBSERVATIONS  # noqa: PLC0415  # pydantic

    return OBSERVATIONS[code].finding(message, definition, level=level)
