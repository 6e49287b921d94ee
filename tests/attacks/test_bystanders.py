"""Attackers among honest solutions change nothing for them: not their results, not the dataset on disk."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from flashinfer_bench.attacks.running import QUICK, victims_with
from flashinfer_bench.attacks.suite import Entry, entries
from flashinfer_bench.bench import Benchmark, BenchmarkConfig
from flashinfer_bench.bench.plan import Selection
from flashinfer_bench.data import Evaluation

pytest.importorskip("torch", reason="running solutions needs torch")

SETTINGS = {**QUICK, "warmup_runs": 2, "iterations": 10, "num_trials": 1, "threads": 1}
BYSTANDERS = entries(
    only=["no_grad", "workspace_by_shape", "scratch_in_place", "writes_into_output"]
)
ATTACKERS = tuple(
    entry
    for entry in entries(with_slow=False)
    if entry.is_hostile and "cpu" in entry.devices and entry.language == "python"
)


@dataclass(frozen=True)
class Verdict:
    """What must not depend on the company a solution keeps, nor on the inputs, which each submission draws anew."""

    status: str
    errors: tuple[float, float]
    times_the_references_error: object


def interleaved(attackers: Sequence[Entry], *, every: int) -> Iterator[str]:
    """Name a bystander, a few attackers, the next bystander, and so on until all attackers have been."""
    groups = [attackers[start : start + every] for start in range(0, len(attackers), every)]
    for number, group in enumerate(groups or [()]):
        yield BYSTANDERS[number % len(BYSTANDERS)].name
        yield from (entry.name for entry in group)
    yield from (entry.name for entry in BYSTANDERS)


@contextmanager
def dataset_with(attackers: Sequence[Entry]) -> Iterator[Benchmark]:
    config = BenchmarkConfig.default(**SETTINGS)
    with (
        victims_with([*BYSTANDERS, *attackers]) as dataset,
        Benchmark(dataset, config, device="cpu") as benchmark,
    ):
        yield benchmark


def run(benchmark: Benchmark, name: str) -> Evaluation | None:
    planned = benchmark.plan(selection=Selection(solutions=(name,)))
    (step,) = benchmark.run(replace(planned, jobs=planned.jobs[:1]))
    return None if step.trace is None else step.trace.evaluation


def verdict(evaluation: Evaluation | None) -> Verdict:
    assert evaluation is not None
    assert evaluation.correctness is not None
    found = evaluation.correctness
    errors = found.max_absolute_error, found.max_relative_error
    return Verdict(str(evaluation.status), errors, found.extra["precision"]["ratio"])


def digests(root: Path) -> dict[str, str]:
    """Digest every file of a dataset but its traces, which grow."""
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file() and "traces" not in path.relative_to(root).parts
    }


def trace_lines(root: Path) -> list[bytes]:
    files = (path for path in (root / "traces").rglob("*.jsonl"))
    return [line for path in sorted(files) for line in path.read_bytes().splitlines()]


@pytest.fixture(scope="module")
def alone() -> dict[str, Verdict]:
    with dataset_with(()) as benchmark:
        return {entry.name: verdict(run(benchmark, entry.name)) for entry in BYSTANDERS}


@pytest.mark.full  # some minutes: all attackers there are
def test_honest_results_are_the_same_among_attackers(alone: dict[str, Verdict]) -> None:
    with dataset_with(ATTACKERS) as benchmark:
        root = benchmark.get_trace_set().root
        assert root is not None
        before, seen, lines = digests(root), [], []
        for name in interleaved(ATTACKERS, every=12):
            evaluation = run(benchmark, name)
            seen += [(name, verdict(evaluation))] if name in alone else []
            written = trace_lines(root)
            assert written[: len(lines)] == lines or set(lines) <= set(written)
            lines = written
        after = digests(root)

    assert after == before
    assert [(name, found) for name, found in seen if found != alone[name]] == []
