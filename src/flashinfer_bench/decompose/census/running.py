"""A census: architectures one by one, each in a process of its own, each on disk before the next is heard of."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from flashinfer_bench.data import appending
from flashinfer_bench.data.files import whole_lines, write_whole
from flashinfer_bench.data.opening import LINES_BYTES, read_bytes
from flashinfer_bench.decompose.census.rows import ArchitectureRow, Examination
from flashinfer_bench.decompose.process import (
    Refused,
    WorkDone,
    WorkEnded,
    WorkLimits,
    WorkTask,
    preload,
    run_alone,
    run_each,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from flashinfer_bench.decompose.process import Outcome

JOURNAL = "journal.jsonl"
TABLE = "census.jsonl"
TIMES = "times.jsonl"
_REGISTERED = "flashinfer_bench.decompose.census.registry:registered"
_EXAMINE = "flashinfer_bench.decompose.census.examining:examine"
_SAID = 300
_PATIENCE = 6
"""How many times its processor time an architecture may take from start to end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CensusPlan:
    """Which architectures, and within what."""

    library: str
    version: str
    registered: tuple[str, ...]
    names: tuple[str, ...]
    output: Path
    seconds: float
    memory_bytes: int
    is_kept: bool = False


class _KeptRow(msgspec.Struct):
    key: str
    row: ArchitectureRow
    cpu_seconds: float | None = None
    peak_memory_bytes: int = 0


class _Listed(msgspec.Struct):
    version: str
    names: tuple[str, ...]


class _Examined(msgspec.Struct):
    row: ArchitectureRow
    cpu_seconds: float
    peak_memory_bytes: int


def listed(library: str) -> tuple[str, tuple[str, ...]]:
    """Ask a library for its version and its architectures."""
    preload("flashinfer_bench.decompose.census.loaded")
    found = msgspec.convert(run_alone(WorkTask(_REGISTERED, (library,), name=library)), _Listed)
    return found.version, found.names


def done_before(plan: CensusPlan) -> dict[str, ArchitectureRow]:
    """Read from the journal what an earlier census of this version with these limits has found."""
    journal = plan.output / JOURNAL
    if not journal.is_file():
        return {}
    return {
        entry.row.architecture: entry.row
        for entry in _entries(journal)
        if entry.key == _key(plan) and entry.row.architecture in plan.names
    }


def begin_journal(plan: CensusPlan, kept: dict[str, ArchitectureRow]) -> None:
    """Start the journal with what is kept, and with what was found of architectures not asked for now."""
    journal = plan.output / JOURNAL
    earlier = list(_entries(journal)) if journal.is_file() else []
    lines = [
        _line(entry)
        for entry in {entry.row.architecture: entry for entry in earlier}.values()
        if entry.key == _key(plan)
        and (entry.row.architecture in kept or entry.row.architecture not in plan.names)
    ]
    write_whole(journal, b"".join(lines))


def run(plan: CensusPlan, names: Sequence[str], at_once: int) -> Iterator[ArchitectureRow]:
    """Examine architectures; what one of them does is its own fault, and the others go on.

    They run in an order that their names' hashes give, so that a census that was interrupted is a sample.
    """
    limits = WorkLimits(seconds=_PATIENCE * plan.seconds + 60, memory_bytes=plan.memory_bytes)
    ordered = sorted(names, key=lambda name: hashlib.sha256(name.encode()).hexdigest())
    for task, outcome in run_each((_task(plan, name) for name in ordered), limits, at_once=at_once):
        entry = _entry(plan, task.name, outcome)
        appending.append({str(plan.output / JOURNAL): _line(entry)})
        yield entry.row


def _task(plan: CensusPlan, name: str) -> WorkTask:
    asked = Examination(plan.library, name, plan.output, plan.seconds, plan.is_kept)
    return WorkTask(_EXAMINE, (asked,), name=name)


def write_table(plan: CensusPlan) -> tuple[ArchitectureRow, ...]:
    """Write the table of what the journal holds, and the times beside it; gives the rows by name.

    The table is the same byte for byte each time; times are not, and stand in a file of their own.
    """
    entries = {entry.row.architecture: entry for entry in _entries(plan.output / JOURNAL)}
    ordered = [entries[name] for name in sorted(entries) if name in plan.names]
    head = {"library": plan.library, "version": plan.version, "registered": len(plan.registered)}
    lines = [msgspec.json.encode(head), *(msgspec.json.encode(each.row) for each in ordered)]
    write_whole(plan.output / TABLE, b"".join(line + b"\n" for line in lines))
    times = [
        {
            "architecture": each.row.architecture,
            "cpu_seconds": each.cpu_seconds,
            "peak_memory_bytes": each.peak_memory_bytes,
        }
        for each in ordered
    ]
    write_whole(plan.output / TIMES, b"".join(msgspec.json.encode(each) + b"\n" for each in times))
    return tuple(each.row for each in ordered)


def _entry(plan: CensusPlan, name: str, outcome: Outcome) -> _KeptRow:
    match outcome:
        case WorkDone(value=value):
            found = msgspec.convert(value, _Examined)
            return _KeptRow(_key(plan), found.row, found.cpu_seconds, found.peak_memory_bytes)
        case Refused(message=message) | WorkEnded(message=message):
            said = " ".join(message.replace(f"{name}: ", "", 1).split())
            row = ArchitectureRow(name, status="failed", stage="process", reason=said[:_SAID])
            return _KeptRow(_key(plan), row)


def _key(plan: CensusPlan) -> str:
    return f"{plan.library} {plan.version} {plan.seconds:g} s {plan.memory_bytes} bytes"


def _entries(journal: Path) -> Iterator[_KeptRow]:
    """Read entries; one that another version wrote, or that tore, counts as not done."""
    for _, line in whole_lines(read_bytes(journal, LINES_BYTES), journal):
        try:
            yield msgspec.json.decode(line, type=_KeptRow)
        except msgspec.DecodeError:
            continue


def _line(entry: _KeptRow) -> bytes:
    return msgspec.json.encode(entry) + b"\n"
