"""Runs the suite through the real engine on a temporary dataset, and compares what happened with the docs."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from flashinfer_bench.attacks.outcomes import Ending, ended, ending_of
from flashinfer_bench.attacks.suite import VICTIMS, Entry
from flashinfer_bench.bench.benchmark import Benchmark
from flashinfer_bench.bench.config import BenchmarkConfig
from flashinfer_bench.bench.outcomes import DatasetFault, Skipped
from flashinfer_bench.bench.plan import Selection
from flashinfer_bench.data import TraceSet, save_json_file
from flashinfer_bench.data.layout import Layout
from flashinfer_bench.errors import BenchError, MissingPackageError
from flashinfer_bench.report.attacks import AttackReport, AttackRow

if TYPE_CHECKING:
    from flashinfer_bench.bench.benchmark import Step
    from flashinfer_bench.bench.plan import Plan

QUICK = {
    "warmup_runs": 3,
    "iterations": 12,
    "num_trials": 2,
    "timeout_seconds": 120,
    "build_timeout_seconds": 300,
    "definition_config": {"forgiving_wave": {"required_matched_ratio": 0.9}},
}
"""Enough for every rule to see every attack; too short to say how fast a kernel is."""

_MARK = "flashinfer-bench-attack-"
"""What attacks call the files and processes they leave behind."""
_SHARED_FOLDERS = ("/dev/shm", "/tmp")  # noqa: S108  # where attacks leave them

Observe = Callable[[AttackRow], None]


@dataclass(frozen=True, slots=True)
class Setting:
    """Where and how the suite runs."""

    device: str = "auto"
    repeats: int = 1
    """How often each look-alike runs on each of its sizes; an attack runs once, on the first."""
    overrides: dict[str, Any] = field(default_factory=dict)


@contextmanager
def victims_with(entries: Sequence[Entry]) -> Iterator[TraceSet]:
    """Give a dataset in a temporary folder that holds the victims and the solutions of these entries."""
    root = Path(tempfile.mkdtemp(prefix="flashinfer-bench-attacks-"))
    try:
        shutil.copytree(VICTIMS, root, dirs_exist_ok=True)
        layout = Layout(root)
        for entry in entries:
            folder = layout.solutions / "attacks" / entry.victim
            save_json_file(entry.solution(), folder / f"{entry.name}.json")
        yield TraceSet.from_path(root)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def run_suite(
    entries: Sequence[Entry], setting: Setting, observe: Observe = lambda _: None
) -> AttackReport:
    """Run every entry that fits the device, one after the other, and report how each ended."""
    config = BenchmarkConfig.default(**{**QUICK, **setting.overrides})
    began_s = time.monotonic()
    rows: list[AttackRow] = []
    seen = _Seen(sandbox="off")
    with (
        victims_with(entries) as dataset,
        Benchmark(dataset, config, device=setting.device) as bench,
    ):
        for entry in entries:
            row = _play(bench, entry, setting, seen)
            rows.append(row)
            observe(row)
        device = ",".join(bench.devices)
        leftovers = tuple(_left_behind())
    return AttackReport(
        device=device,
        hardware=seen.hardware,
        torch=seen.torch,
        sandbox=seen.sandbox,
        date=datetime.now(UTC).date().isoformat(),
        rows=tuple(rows),
        leftovers=leftovers,
        elapsed_s=time.monotonic() - began_s,
    )


def _left_behind() -> Iterator[str]:
    """Name processes that outlived their jobs; remove files of attacks, which only waste space."""
    for folder in _SHARED_FOLDERS:
        for file in Path(folder).glob(f"{_MARK}*"):
            if file.is_file():
                file.unlink(missing_ok=True)
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or [""]
        if words[0].startswith(_MARK):
            yield f"process {process.pid} ({words[0]}) outlived its job"


@dataclass
class _Seen:
    """What traces have said about the machine so far."""

    sandbox: str
    hardware: str = ""
    torch: str = ""

    def look_at(self, ending: Ending) -> None:
        evaluation = ending.evaluation
        if evaluation is not None:
            self.hardware = evaluation.environment.hardware
            self.torch = evaluation.environment.libs.get("torch", "")
            self.sandbox = evaluation.provenance.sandbox if evaluation.provenance else self.sandbox


def _play(bench: Benchmark, entry: Entry, setting: Setting, seen: _Seen) -> AttackRow:
    kind = bench.target.kind
    expected = entry.expected_on(kind)
    row = AttackRow(
        name=entry.name,
        title=entry.title,
        family=entry.family,
        expected=expected,
        got="",
        evidence="",
        as_documented=None,
        is_stopped=None,
        not_run_because=None,
        elapsed_s=0.0,
    )
    if kind not in entry.devices:
        return replace(row, not_run_because=f"it needs {' or '.join(entry.devices)}")
    began_s = time.monotonic()
    rounds = 1 if entry.is_hostile else setting.repeats
    endings = [ending for _ in range(rounds) for ending in _run_once(bench, entry)]
    worst = next((each for each in endings if not each.fits(expected)), endings[0])
    seen.look_at(worst)
    row = replace(row, elapsed_s=time.monotonic() - began_s)
    return ended(row, entry, worst, sandbox=seen.sandbox, total=len(endings))


def plan_of(bench: Benchmark, entry: Entry) -> Plan:
    """Plan an attack on the first size of its victim, a look-alike on all sizes in one process."""
    planned = bench.plan(selection=Selection(solutions=(entry.name,)))
    return replace(planned, jobs=planned.jobs[:1]) if entry.is_hostile else planned


def _run_once(bench: Benchmark, entry: Entry) -> list[Ending]:
    """Run the jobs of an entry; a fault of the engine is an ending too, and the next entry gets new workers."""
    planned = plan_of(bench, entry)
    for _, reason in planned.skipped:
        return [Ending(skipped=reason)]
    try:
        steps: list[Step] = list(bench.run(planned))
    except MissingPackageError:
        raise  # no other job would fare better
    except BenchError as error:
        bench.close()
        return [Ending(broke=f"{type(error).__name__}: {error}")]
    if not steps or len(steps) != len(planned.jobs):
        return [Ending(broke=f"{len(steps)} jobs instead of {len(planned.jobs)}")]
    return [_ending(step) for step in steps]


def _ending(step: Step) -> Ending:
    match step.outcome:
        case Skipped(reason=reason):
            return Ending(skipped=reason)
        case DatasetFault(explanation=explanation):
            return Ending(broke=f"the dataset was blamed: {explanation}")
        case _:
            return ending_of(step.trace)
