"""Which job a difference is about, and what times do not say of two sides: what is new, missing, wrong or right."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from flashinfer_bench.report.compare.judged import judged_otherwise
from flashinfer_bench.report.compare.result import Change, ChangedJob, JobIdentity
from flashinfer_bench.report.compare.sides import identity

if TYPE_CHECKING:
    from flashinfer_bench.report.compare.sides import JobTraces, Key, Side, TracesByJob

    Axes = tuple[str, tuple[tuple[str, int], ...]]


def place_of(key: Key, entry: JobTraces, twins: set[Axes]) -> JobIdentity:
    """Name a job, and say whether another has the same axes."""
    hardware, definition, solution, workload = key
    has_twins = _axes(definition, entry) in twins
    return JobIdentity(hardware, definition, solution, workload, entry.newest.axes, has_twins)


def _axes(definition: str, entry: JobTraces) -> Axes:
    return definition, tuple(sorted(entry.newest.axes.items()))


def twins_of(before: TracesByJob, after: TracesByJob) -> set[Axes]:
    """Find axes that several workloads of a definition have."""
    workloads: defaultdict[Axes, set[str]] = defaultdict(set)
    for side in (before, after):
        for (_, definition, _, workload), entry in side.items():
            workloads[_axes(definition, entry)].add(workload)
    return {axes for axes, found in workloads.items() if len(found) > 1}


def changes_between(
    before: TracesByJob, after: TracesByJob, twins: set[Axes], side: Side
) -> tuple[ChangedJob, ...]:
    """Find jobs that one side lacks, or that do not pass on both."""
    found = []
    for key in sorted(before.keys() | after.keys()):
        old, new = before.get(key), after.get(key)
        change = _change(old, new)
        entry = new or old
        if change is not None and entry is not None:
            both = (old.newest, new.newest) if old and new else None
            found.append(
                ChangedJob(
                    place=place_of(key, entry, twins),
                    change=change,
                    old_status=_status(old),
                    new_status=_status(new),
                    reason=_reason(new, side),
                    judged_otherwise=judged_otherwise(*both) if both else None,
                    is_same_trace=both is not None and identity(both[0]) == identity(both[1]),
                )
            )
    return tuple(found)


def _change(old: JobTraces | None, new: JobTraces | None) -> Change | None:
    if old is None or new is None:
        return Change.NEW if old is None else Change.MISSING
    if old.is_passed and new.is_passed:
        return None
    if old.is_passed or new.is_passed:
        return Change.BROKE if old.is_passed else Change.MENDED
    return Change.FAILS


def _reason(entry: JobTraces | None, side: Side) -> str:
    failure = side.failure_of(entry.newest) if entry and not entry.is_passed else None
    if failure is None:
        return ""
    is_named = failure.rule in failure.message
    return failure.message if is_named else f"{failure.rule}: {failure.message}"


def _status(entry: JobTraces | None) -> str | None:
    return None if entry is None else entry.newest.status
