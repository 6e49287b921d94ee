"""Runs the suite through the real engine on a temporary dataset, and compares what happened with the docs."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from flashinfer_bench.attacks.outcomes import Ending, ended
from flashinfer_bench.attacks.results import AttackReport, AttackRow
from flashinfer_bench.attacks.scenarios import Stage, companions, play, play_honest_twin
from flashinfer_bench.attacks.suite import PASSED, PREVENTED, VICTIMS, Entry
from flashinfer_bench.attacks.suite import entries as suite
from flashinfer_bench.bench.benchmark import Benchmark
from flashinfer_bench.bench.config import BenchmarkConfig
from flashinfer_bench.data import TraceSet, save_json_file
from flashinfer_bench.data.layout import Layout

if TYPE_CHECKING:
    from flashinfer_bench.data import Solution

QUICK = {
    "warmup_runs": 3,
    "iterations": 12,
    "num_trials": 2,
    "timeout_seconds": 120,
    "build_timeout_seconds": 300,
    "disturbed_repeats": 0,
    "definition_config": {"forgiving_wave": {"required_matched_ratio": 0.9}},
}
"""Enough for every rule to see every attack; too short to say how fast a kernel is.

No block is repeated: then a job has the same calls each time it is played, which is what notes are good for.
"""

_PAIRS = 6
"""An attack and its honest twin are played so often at most."""

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
        folder = Layout(root).solutions / "attacks"
        for solution in _solutions(entries, TraceSet.from_path(root)):
            save_json_file(solution, folder / solution.definition / f"{solution.name}.json")
        yield TraceSet.from_path(root)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _solutions(entries: Sequence[Entry], victims: TraceSet) -> Iterator[Solution]:
    """Yield the solutions of entries, and what they are played with."""
    for entry in entries:
        yield entry.solution()
        yield from companions(entry, victims.definitions)
    twins = {entry.honest_twin for entry in entries if entry.honest_twin}
    yield from (twin.solution() for twin in suite(only=sorted(twins)) if twins)


def run_suite(
    entries: Sequence[Entry], setting: Setting, observe: Observe = lambda _: None
) -> AttackReport:
    """Run every entry that fits the device, one after the other, and report how each ended.

    Once interrupted, it reports those that had ended.
    """
    config = BenchmarkConfig.default(**{**QUICK, **setting.overrides})
    began_s = time.monotonic()
    rows: list[AttackRow] = []
    seen = _Seen(sandbox="off")
    with (
        victims_with(entries) as dataset,
        Benchmark(dataset, config, device=setting.device) as bench,
    ):
        stage = Stage(bench, dataset, config)
        with suppress(KeyboardInterrupt):
            for entry in entries:
                row = _play(stage, entry, setting, seen)
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
        is_complete=len(rows) == len(entries),
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


def _play(stage: Stage, entry: Entry, setting: Setting, seen: _Seen) -> AttackRow:
    kind = stage.bench.target.kind
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
    tries = entry.tries if entry.is_hostile else setting.repeats
    endings = [each for _ in range(tries) for each in _endings(stage, entry, expected)]
    worst = next((each for each in endings if not each.fits(expected)), endings[-1])
    for each in endings:
        seen.look_at(each)
    row = replace(row, elapsed_s=time.monotonic() - began_s)
    return ended(row, entry, worst, sandbox=seen.sandbox, total=tries)


def _endings(stage: Stage, entry: Entry, expected: tuple[str, ...]) -> list[Ending]:
    """Play an entry; where it may pass unharmed, its honest twin beside it too, and say what it gained over that.

    Two processes may differ for no reason in the code, so a gain is one if it is there in each of several pairs.
    """
    if PREVENTED not in expected or not entry.is_hostile:
        return play(stage, entry)
    for _ in range(_PAIRS):
        endings = _compared(stage, entry, play(stage, entry))
        if entry.scenario == "rounds" or all(each.gain is None for each in endings):
            break
    return endings


def _compared(stage: Stage, entry: Entry, endings: Sequence[Ending]) -> list[Ending]:
    """Play the honest twin, if anything passed that is not compared yet, and compare."""
    if not any(each.evaluation is not None and each.status == PASSED for each in endings):
        return list(endings)
    twins = {each.workload: each for each in play_honest_twin(stage, entry)}
    return [_beside(each, twins) for each in endings]


def _beside(ending: Ending, twins: Mapping[str, Ending]) -> Ending:
    if ending.evaluation is None or ending.status != PASSED:
        return ending
    twin = twins.get(ending.workload)
    if twin is None or twin.status != PASSED:
        return Ending(broke=f"its honest twin ended with {twin.text if twin else 'nothing'}")
    return replace(ending, gain=ending.has_won_over(twin), is_told=ending.tells_of(twin))
