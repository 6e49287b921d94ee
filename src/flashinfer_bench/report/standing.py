"""Which traces count for a solution: rows become, by hardware, one tally per solution."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING

from flashinfer_bench.data.wording import instant
from flashinfer_bench.text.numbers import count_text
from flashinfer_bench.text.tables import Block, heading, paragraph

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from flashinfer_bench.data.rows import TraceRow

    # Gives the hash of the solution that the dataset holds under a name, None if it holds none.
    CurrentHash = Callable[[str], str | None]

ALL_HARDWARE = "all hardware"


@dataclass(slots=True)
class Tally:
    """What one solution did on one kind of hardware."""

    solution: str
    author: str | None
    language: str | None
    passed: dict[str, TraceRow] = field(default_factory=dict)
    """The trace of each workload that passed."""
    failed: list[TraceRow] = field(default_factory=list)
    specialised: str | None = None
    """Where it was wrong, or slow, on sizes that it had not seen, by its newest traces."""

    @property
    def violation_count(self) -> int:
        """Traces that broke the contract."""
        return sum(row.violation_count > 0 for row in self.failed)

    @property
    def workload_count(self) -> int:
        """Workloads that were attempted."""
        return len(self.passed.keys() | {row.workload_uuid for row in self.failed})


Tallies = dict[str, dict[str, Tally]]
"""By definition, then by solution; empty where all that was measured is left out."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Traces that count for nothing, and why."""

    older_runs: int = 0
    """Traces of what was run again: the newest run counts, whether it passed or failed."""
    other_versions: int = 0
    """Traces of code that the solution's present code replaced."""
    interpreted: int = 0
    """Traces whose kernel was interpreted: their times mean nothing."""
    weak_tasks: int = 0
    """Traces on workloads that are weak themselves: less than the work may pass."""


@dataclass(frozen=True, slots=True)
class Standing:
    """All rows sorted out."""

    tallies: Mapping[str, Tallies]
    """By hardware, in alphabetical order."""
    statuses: Mapping[str, Mapping[str, int]]
    """Traces by hardware and status, counted before anything is left out."""
    left_out: LeftOut
    weak: frozenset[tuple[str, str]] = frozenset()
    """Workloads, by definition and uuid, that were left out because any of their traces says that they are weak."""


def standing(
    rows: Iterable[TraceRow],
    current_hash: CurrentHash,
    *,
    mixes_hardware: bool = False,
    includes_weak: bool = False,
) -> Standing:
    """Sort rows out: what is outdated or means nothing is left out and counted.

    So are workloads that a trace says are weak, unless `includes_weak`.
    """
    every = list(rows)
    statuses = _statuses(every, mixes_hardware=mixes_hardware)
    timed = [row for row in every if not row.interpreted]
    present = of_present_code(timed, current_hash)
    newest = _newest(present, mixes_hardware=mixes_hardware)
    weak = frozenset() if includes_weak else frozenset(_task(r) for r in newest if r.task_notes)
    kept = [row for row in newest if _task(row) not in weak] if weak else newest
    left_out = LeftOut(
        older_runs=len(present) - len(newest),
        other_versions=len(timed) - len(present),
        interpreted=len(every) - len(timed),
        weak_tasks=len(newest) - len(kept),
    )
    tallies: defaultdict[str, Tallies] = defaultdict(dict)
    for row in kept:
        _add(tallies[ALL_HARDWARE if mixes_hardware else row.hardware], row)
    for row in newest:
        tally = tallies[ALL_HARDWARE if mixes_hardware else row.hardware].get(row.definition, {})
        if row.specialised and row.solution in tally:
            tally[row.solution].specialised = row.specialised
    are_some_gone = left_out.interpreted or left_out.weak_tasks
    for row in every if are_some_gone else ():  # measured, though it counts for nothing
        tallies[ALL_HARDWARE if mixes_hardware else row.hardware].setdefault(row.definition, {})
    return Standing({name: tallies[name] for name in statuses}, statuses, left_out, weak)


def _statuses(rows: list[TraceRow], *, mixes_hardware: bool) -> dict[str, dict[str, int]]:
    counted = Counter(map(attrgetter("hardware", "status"), rows))
    statuses: dict[str, dict[str, int]] = {}
    for hardware, status in sorted(counted):
        group = statuses.setdefault(ALL_HARDWARE if mixes_hardware else hardware, {})
        group[status] = group.get(status, 0) + counted[hardware, status]
    return statuses


def of_present_code(rows: list[TraceRow], current_hash: CurrentHash) -> list[TraceRow]:
    """Leave out rows of code that a solution had before, where rows of its present code exist.

    A solution whose code the dataset does not hold, or never measured, is judged by all its rows.
    """
    pairs = {(row.solution, row.solution_hash) for row in rows}
    hashes: defaultdict[str, set[str]] = defaultdict(set)
    for solution, code in pairs:
        if code is not None:
            hashes[solution].add(code)
    changed = {solution for solution, known in hashes.items() if len(known) > 1}
    outdated: set[tuple[str, str | None]] = set()
    for solution in changed:
        present = current_hash(solution)
        if present in hashes[solution]:
            outdated |= {(solution, code) for code in hashes[solution] - {present}}
    if not outdated:
        return rows
    return [row for row in rows if (row.solution, row.solution_hash) not in outdated]


def _newest(rows: list[TraceRow], *, mixes_hardware: bool) -> list[TraceRow]:
    """Keep the newest trace of each solution on each workload, by hardware; of one instant the last in the record.

    The fastest of several runs would be a choice that no interval knows of (docs/adr/0008).
    """
    job_of = attrgetter("definition", "solution", "workload_uuid", "hardware")
    newest: dict[object, TraceRow] = {}
    for row in rows:
        job = job_of(row)[:3] if mixes_hardware else job_of(row)
        known = newest.get(job)
        if known is None or instant(known.timestamp) <= instant(row.timestamp):
            newest[job] = row
    return list(newest.values())


def _task(row: TraceRow) -> tuple[str, str]:
    return row.definition, row.workload_uuid


def _add(tallies: Tallies, row: TraceRow) -> None:
    by_solution = tallies.get(row.definition)
    if by_solution is None:
        by_solution = tallies[row.definition] = {}
    tally = by_solution.get(row.solution)
    if tally is None:
        tally = Tally(row.solution, row.author, row.language)
        by_solution[row.solution] = tally
    if row.status == "PASSED":
        tally.passed[row.workload_uuid] = row
    else:
        tally.failed.append(row)


def left_out_blocks(left_out: LeftOut) -> tuple[Block, ...]:
    """Say which traces were passed over."""
    counts = (
        (left_out.older_runs, "trace", "of what was run again: the newest run counts"),
        (left_out.other_versions, "trace", "of code that has since been replaced"),
        (left_out.interpreted, "trace", "of interpreted kernels, whose times mean nothing"),
        (
            left_out.weak_tasks,
            "trace",
            "on weak tasks, where less than the work may pass: --include-weak counts them",
        ),
    )
    lines = [f"{count_text(count, noun)} {what}" for count, noun, what in counts if count]
    return (heading("Left out"), paragraph(*lines)) if lines else ()
