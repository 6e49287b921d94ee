"""Many files taken apart, several at once; each result is on disk before the next is heard of."""

from __future__ import annotations

import hashlib
import itertools
import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from flashinfer_bench.data import appending
from flashinfer_bench.data.files import whole_lines, write_whole
from flashinfer_bench.data.opening import LINES_BYTES, read_bytes
from flashinfer_bench.decompose.process import (
    DecomposeRequest,
    Refused,
    WorkDone,
    WorkEnded,
    WorkLimits,
    WorkTask,
    run_each,
)
from flashinfer_bench.errors import BenchError
from flashinfer_bench.kernelbench.library import label_of, local_sources

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from flashinfer_bench.decompose.process import Emit, Outcome


FAILED = "failed"


@dataclass(frozen=True, slots=True)
class BatchRow:
    """What became of one file; without a `fault` it was taken apart."""

    problem: str
    file: str
    directory: str
    classified: str = FAILED
    kernels: int = 0
    different_kernels: int = 0
    fusions: int = 0
    layers: int = 0
    operations: int = 0
    coverage: float = 0.0
    verified: str = ""
    equality: str = ""
    shrunk: str | None = None
    front_end: str = ""
    findings: tuple[str, ...] = ()
    cpu_seconds: float | None = None
    seconds: float = 0.0
    """From start to end; what others did at the same time counts in."""
    peak_memory_bytes: int = 0
    definitions: int = 0
    has_dataset: bool = False
    executed: dict[str, dict[str, int]] = field(default_factory=dict)
    """How many tests of files, wrong kernels and workloads fared how."""
    weak: tuple[str, ...] = ()
    """Workloads on which a wrong kernel passes, and what that does."""
    fault: str = ""
    is_ours: bool = False
    """Whether the fault is this program's and not the file's."""

    @property
    def is_good(self) -> bool:
        """Whether it was taken apart, and nothing speaks against it."""
        return not self.fault and self.verified != "fail" and self.coverage >= 1.0


@dataclass(frozen=True, slots=True)
class MergeReport:
    """What a dictionary of kernels got from these models."""

    dataset: str
    models: int
    added: int
    shared: int
    workloads: int


@dataclass(frozen=True, slots=True)
class BatchReport:
    """What became of all files, in their order."""

    output: str
    rows: tuple[BatchRow, ...]
    resumed: int
    seconds: float
    merged: MergeReport | None = None
    totals: dict[str, float] = field(default_factory=dict)


def totals_of(rows: Sequence[BatchRow]) -> dict[str, float]:
    """Count what is worth counting over all files."""
    taken_apart = [row for row in rows if not row.fault]
    times_s = [row.cpu_seconds for row in taken_apart if row.cpu_seconds is not None]
    return {
        "files": len(rows),
        "failed": len(rows) - len(taken_apart),
        "verified": sum(row.verified == "pass" for row in taken_apart),
        "bit_equal": sum(row.equality == "bit-equal" for row in taken_apart),
        "not_verified": sum(row.verified == "fail" for row in taken_apart),
        "fully_covered": sum(row.coverage >= 1.0 for row in taken_apart),
        "kernels": sum(row.kernels for row in taken_apart),
        "shrunk": sum(row.shrunk is not None for row in taken_apart),
        "tests_executed": _executed(taken_apart, "tests", "run"),
        "wrong_kernels_refused": _executed(taken_apart, "wrong kernels", "refused"),
        "wrong_kernels_passed": _executed(taken_apart, "wrong kernels", "pass"),
        "not_executed": sum(
            _executed(taken_apart, *each)
            for each in itertools.product(
                ("tests", "workloads"), ("too large", "without one", "not run")
            )
        ),
        "mean_cpu_seconds": sum(times_s) / len(times_s) if times_s else 0.0,
        "most_memory_bytes": max((row.peak_memory_bytes for row in taken_apart), default=0),
    }


def _executed(rows: Sequence[BatchRow], what: str, how: str) -> int:
    return sum(row.executed.get(what, {}).get(how, 0) for row in rows)


JOURNAL = "batch.jsonl"
_JOB = "flashinfer_bench.decompose.pipeline:decompose_file"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlan:
    """Which files, how, and within what."""

    files: tuple[Path, ...]
    output: Path
    emit: Emit = "kernels"
    is_verified: bool = True
    overrides: Path | None = None
    at_once: int = 1
    memory_bytes: int = 8 << 30
    """What the process of one file may take."""
    seconds: float = 600.0

    def request(self, file: Path) -> DecomposeRequest:
        """Ask for one file; it goes into a folder named by its level and itself."""
        return DecomposeRequest(
            file=file,
            directory=self.output / label_of(file),
            emit=self.emit,
            is_verified=self.is_verified,
            overrides=self.overrides,
            memory_limit_bytes=self.memory_bytes,
        )

    def key(self, file: Path) -> str:
        """Identify everything that decides a result: the sources and what is asked."""
        try:
            sources = local_sources(file)
        except BenchError:
            sources = {}
        overrides = read_bytes(self.overrides).hex() if self.overrides else ""
        asked = [sources, self.emit, self.is_verified, overrides]
        return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class StartedFile:
    """Work on a file began."""

    file: Path


@dataclass(frozen=True, slots=True)
class FinishedFile:
    """What became of a file; it is in the journal."""

    file: Path
    row: BatchRow


Event = StartedFile | FinishedFile


class _JournalEntry(msgspec.Struct):
    key: str
    row: BatchRow


def done_before(plan: BatchPlan) -> dict[Path, BatchRow]:
    """Read from the journal of an earlier batch what need not be done again: same sources, same wishes, no fault."""
    journal = plan.output / JOURNAL
    if not journal.is_file():
        return {}
    entries = {entry.row.file: entry for entry in _entries(journal)}
    found = {}
    for file in plan.files:
        entry = entries.get(str(file))
        if (
            entry
            and entry.row.is_good
            and entry.key == plan.key(file)
            and _is_there(entry.row, plan)
        ):
            found[file] = entry.row
    return found


def begin_journal(plan: BatchPlan, kept: dict[Path, BatchRow]) -> None:
    """Start the journal with what is kept, and with what earlier batches said of other files."""
    journal = plan.output / JOURNAL
    mine = set(map(str, plan.files))
    earlier = {entry.row.file: entry for entry in (_entries(journal) if journal.is_file() else ())}
    lines = [_line(each.key, each.row) for file, each in earlier.items() if file not in mine]
    lines += [_line(plan.key(file), row) for file, row in kept.items()]
    write_whole(journal, b"".join(lines))


def run(plan: BatchPlan, files: Sequence[Path]) -> Iterator[Event]:
    """Take files apart; what one of them does is its own fault, and the others go on."""
    began_s: dict[str, float] = {}
    by_name = {str(file): file for file in files}

    def tasks() -> Iterator[WorkTask]:  # pulled one by one, as places become free
        for name, file in by_name.items():
            began_s[name] = time.monotonic()
            yield WorkTask(_JOB, (plan.request(file),), name=name)

    limits = WorkLimits(seconds=plan.seconds, memory_bytes=plan.memory_bytes)
    waiting = iter(files)
    yield from map(StartedFile, itertools.islice(waiting, plan.at_once))
    for task, outcome in run_each(tasks(), limits, at_once=plan.at_once):
        file = by_name[task.name]
        row = _row(plan, file, outcome, time.monotonic() - began_s[task.name])
        appending.append({str(plan.output / JOURNAL): _line(plan.key(file), row)})
        yield FinishedFile(file, row)
        yield from map(StartedFile, itertools.islice(waiting, 1))


def _row(plan: BatchPlan, file: Path, outcome: Outcome, seconds: float) -> BatchRow:
    named: dict[str, Any] = {
        "problem": label_of(file),
        "file": str(file),
        "directory": str(plan.output / label_of(file)),
        "seconds": round(seconds, 3),
    }
    match outcome:
        case WorkDone(value=report):
            return BatchRow(**named, **_found(report))
        case Refused(message=message):
            return BatchRow(**named, fault=message)
        case WorkEnded(message=message, is_ours=is_ours):
            return BatchRow(**named, fault=message, is_ours=is_ours)


def _found(report: dict[str, Any]) -> dict[str, Any]:
    """Take from a report what a line of a table holds."""
    counts = report["counts"]
    errors = [each for each in report["findings"] if each["severity"] == "error"]
    shrunk = report["shrunk"]
    return {
        "classified": report["classified"],
        "kernels": counts["kernel"]["instances"],
        "different_kernels": counts["kernel"]["nodes"],
        "fusions": counts["fusion"]["instances"],
        "layers": counts["layer"]["instances"],
        "operations": report["operations"],
        "coverage": report["coverage"],
        "verified": report["verified"],
        "equality": report["equality"],
        "shrunk": None if shrunk is None else str(shrunk),
        "front_end": report["front_end"],
        "findings": tuple(f"{each['file']}: {each['code']}: {each['message']}" for each in errors),
        "cpu_seconds": report["cpu_seconds"],
        "peak_memory_bytes": report["peak_memory_bytes"],
        "definitions": len(report["definitions"]),
        "has_dataset": bool(report["definitions"]),
        "executed": report["executed_counts"],
        "weak": tuple(
            f"{each['file']}: {each['message']}"
            for each in report["findings"]
            if each["code"] == "FILE-weak"
        ),
    }


def _entries(journal: Path) -> Iterator[_JournalEntry]:
    """Read entries; one that another version wrote, or that tore, counts as not done."""
    for _, line in whole_lines(read_bytes(journal, LINES_BYTES), journal):
        try:
            yield msgspec.json.decode(line, type=_JournalEntry)
        except msgspec.DecodeError:
            continue


def _is_there(row: BatchRow, plan: BatchPlan) -> bool:
    return (plan.output / row.problem / "decomposition_tree.json").is_file()


def _line(key: str, row: BatchRow) -> bytes:
    return msgspec.json.encode(_JournalEntry(key, row)) + b"\n"
