"""What one side of a comparison says about each of its jobs: how it ended, and which traces time it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flashinfer_bench.data.wording import instant
from flashinfer_bench.report.standing import of_present_code

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from flashinfer_bench.data.rows import TraceRow
    from flashinfer_bench.report.failures import Failure
    from flashinfer_bench.report.standing import CurrentHash

Samples = dict[str, list[float]]
"""Milliseconds by participant, in the order they were taken."""

Key = tuple[str, str, str, str]
"""Hardware, definition, solution and workload; what is compared is left empty."""

_PASSED = "PASSED"


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison."""

    name: str
    """As the user called it."""
    rows: Sequence[TraceRow]
    current_hash: CurrentHash
    samples_of: Callable[[str, list[str]], Mapping[str, Samples]]
    """Reads raw samples of a definition's traces, by trace id."""
    failure_of: Callable[[TraceRow], Failure | None] = lambda _: None
    """Reads why a trace failed."""


@dataclass(frozen=True, slots=True)
class JobTraces:
    """What one side says about one job."""

    newest: TraceRow
    timed: tuple[TraceRow, ...]
    """Passing traces of the same code under the same conditions, oldest first; none where it failed."""

    @property
    def is_passed(self) -> bool:
        """Whether the newest trace passed."""
        return self.newest.status == _PASSED


TracesByJob = dict[Key, JobTraces]


def traces_by_job(side: Side, key_of: Callable[[TraceRow], Key]) -> TracesByJob:
    """Sort a side's traces by job; code that was replaced and interpreted kernels say nothing."""
    timed = [row for row in side.rows if not row.interpreted]
    by_key: defaultdict[Key, list[TraceRow]] = defaultdict(list)
    for row in of_present_code(timed, side.current_hash):
        by_key[key_of(row)].append(row)
    return {key: _entry(rows) for key, rows in by_key.items()}


def without_shared(old: Side, new: Side, key_of: Callable[[TraceRow], Key]) -> tuple[Side, Side]:
    """Leave out, on either side, traces that both hold, where the side holds others of the same job.

    Traces are appended: a newer state of a dataset holds all that an older one does. Where its code has changed
    since, an older state's trace says nothing about the newer one: that was not measured.
    """
    shared = set(map(identity, old.rows)) & set(map(identity, new.rows))
    if not shared:
        return old, new
    olds = {key_of(row) for row in old.rows if identity(row) not in shared}
    measured = [
        row
        for row in new.rows
        if identity(row) not in shared or key_of(row) in olds or _is_present(row, new)
    ]
    newer = replace(new, rows=measured)
    return _with_own_rows(old, shared, key_of), _with_own_rows(newer, shared, key_of)


def identity(row: TraceRow) -> tuple[object, ...]:
    """Tell one trace from every other, those without an id too."""
    return (
        row.trace_id, row.hardware, row.definition, row.solution, row.workload_uuid, row.timestamp,
        row.status, row.latency_ms,
    )  # fmt: skip


def conditions(row: TraceRow) -> tuple[object, ...]:
    """Name what must be equal for traces of one code to say the same thing."""
    return (
        row.solution_hash, row.definition_hash, row.config_hash, row.threads, row.latency_kind,
        row.is_cold, row.launch, tuple(sorted(row.libs.items())),
    )  # fmt: skip


def _is_present(row: TraceRow, side: Side) -> bool:
    """Whether a trace is of the code that a side holds; of what it does not hold all are."""
    return row.solution_hash is None or side.current_hash(row.solution) in {None, row.solution_hash}


def _with_own_rows(
    side: Side, shared: set[tuple[object, ...]], key_of: Callable[[TraceRow], Key]
) -> Side:
    own = {key_of(row) for row in side.rows if identity(row) not in shared}
    rows = [row for row in side.rows if identity(row) not in shared or key_of(row) not in own]
    return replace(side, rows=rows)


def _entry(rows: list[TraceRow]) -> JobTraces:
    rows.sort(key=lambda row: instant(row.timestamp))
    newest = rows[-1]
    if newest.status != _PASSED:
        return JobTraces(newest, ())
    alike = conditions(newest)
    same = (row for row in rows if row.status == _PASSED and row.latency_ms)
    return JobTraces(newest, tuple(row for row in same if conditions(row) == alike))
