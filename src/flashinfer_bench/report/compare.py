"""Two sides measured apart: what became faster, slower, new, missing, wrong or right."""

from __future__ import annotations

import enum
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashinfer_bench.report.compare_ratios import (
    Basis,
    JobRatio,
    Source,
    Timed,
    has_same_reference,
    job_ratio,
    luck,
    possible_bases,
    reference_ratio,
    widened,
)
from flashinfer_bench.report.compare_sides import entries, without_shared
from flashinfer_bench.report.numbers import Interval, geometric_mean, mean_interval
from flashinfer_bench.report.verdicts import THRESHOLD, Verdict, verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from flashinfer_bench.data.rows import TraceRow
    from flashinfer_bench.report.compare_sides import Entries, Entry, Key, Side


ACROSS = "its interval reaches across the threshold"


class Kind(enum.StrEnum):
    """What is set against what."""

    DATASETS = "datasets"
    RUNS = "runs"
    SOLUTIONS = "solutions"
    HARDWARE = "hardware"


class Change(enum.StrEnum):
    """What became of a job that does not have a time on both sides."""

    BROKE = "BROKE"
    """It passed, and fails."""
    MISSING = "MISSING"
    """The new side has no trace of it."""
    NEW = "NEW"
    """The old side has no trace of it."""
    MENDED = "MENDED"
    """It failed, and passes."""
    FAILS = "FAILS"
    """It failed, and fails."""


@dataclass(frozen=True, slots=True)
class Place:
    """Which job; empty where it is what the two sides differ in."""

    hardware: str
    definition: str
    solution: str
    workload: str
    axes: dict[str, int]


@dataclass(frozen=True, slots=True)
class ComparedJob:
    """A job that passed on both sides."""

    place: Place
    old_latency_ms: float | None
    new_latency_ms: float | None
    ratio: float | None
    """How many times faster the new side is."""
    interval: Interval | None
    """95%."""
    verdict: Verdict
    reason: str
    """Why it is undecided."""
    basis: Basis
    source: Source | None
    old_runs: int
    new_runs: int
    old_max_absolute_error: float | None
    new_max_absolute_error: float | None


@dataclass(frozen=True, slots=True)
class ChangedJob:
    """A job without a time on both sides."""

    place: Place
    change: Change
    old_status: str | None
    new_status: str | None


@dataclass(frozen=True, slots=True)
class Overall:
    """All jobs of one kind of hardware."""

    hardware: str
    ratio: float | None
    """Geometric mean over jobs."""
    interval: Interval | None
    verdict: Verdict
    reason: str
    verdicts: dict[str, int]
    between_runs: float | None
    """How much runs of the same code differ beyond their intervals, as a share; None where unknown."""
    reference_ratio: float | None
    """How many times faster the references were, where they are the same code on both sides."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Everything two sides differ in."""

    kind: Kind
    old: str
    new: str
    threshold: float
    overall: tuple[Overall, ...]
    jobs: tuple[ComparedJob, ...]
    changes: tuple[ChangedJob, ...]
    remarks: tuple[str, ...]
    """What else differs, and what the intervals do not know."""


@dataclass(frozen=True, slots=True)
class _Pair:
    place: Place
    old: Timed
    new: Timed
    ratio: JobRatio


def compare(
    old: Side,
    new: Side,
    kind: Kind,
    *,
    by: Basis | None = None,
    threshold: float = THRESHOLD,
) -> Comparison:
    """Set two sides against each other, job by job and over all; `by` None takes the better basis."""
    key_of = _KEYS[kind]
    if kind is Kind.DATASETS:
        old, new = without_shared(old, new, key_of)
    before, after = entries(old, key_of), entries(new, key_of)
    pairs = _pairs(old, new, before, after, by)
    groups: defaultdict[str, list[_Pair]] = defaultdict(list)
    for pair in pairs:
        groups[pair.place.hardware].append(pair)
    jobs: list[ComparedJob] = []
    overall: list[Overall] = []
    for hardware, group in sorted(groups.items()):
        found_controls = (reference_ratio(*_newest(pair)) for pair in group if _is_control(pair))
        controls = [each for each in found_controls if each is not None]
        ratios = _widened([pair.ratio for pair in group], controls)
        found = [
            _compared(pair, ratio, threshold) for pair, ratio in zip(group, ratios, strict=True)
        ]
        jobs += found
        by_speedup = any(pair.ratio.basis is Basis.SPEEDUP for pair in group)
        basis = Basis.SPEEDUP if by_speedup else Basis.LATENCY
        between_runs = luck([pair.ratio for pair in group], controls, basis)
        overall.append(_overall(hardware, found, controls, between_runs, threshold))
    return Comparison(
        kind=kind,
        old=old.name,
        new=new.name,
        threshold=threshold,
        overall=tuple(overall),
        jobs=tuple(jobs),
        changes=_changes(before, after),
        remarks=_remarks(pairs, overall),
    )


_KEYS: dict[Kind, Callable[[TraceRow], Key]] = {
    Kind.DATASETS: lambda row: (row.hardware, row.definition, row.solution, row.workload_uuid),
    Kind.RUNS: lambda row: (row.hardware, row.definition, row.solution, row.workload_uuid),
    Kind.SOLUTIONS: lambda row: (row.hardware, row.definition, "", row.workload_uuid),
    Kind.HARDWARE: lambda row: ("", row.definition, row.solution, row.workload_uuid),
}


def _pairs(old: Side, new: Side, before: Entries, after: Entries, by: Basis | None) -> list[_Pair]:
    keys = [
        key
        for key in sorted(before.keys() & after.keys())
        if before[key].is_passed and after[key].is_passed
    ]
    by_definition: defaultdict[str, list[Key]] = defaultdict(list)
    for key in keys:
        by_definition[key[1]].append(key)
    pairs = []
    for definition, group in by_definition.items():
        old_samples = old.samples_of(definition, _ids(before[key] for key in group))
        new_samples = new.samples_of(definition, _ids(after[key] for key in group))
        for key in group:
            one = Timed(before[key].timed, old_samples)
            two = Timed(after[key].timed, new_samples)
            bases = possible_bases(one, two) if by is None else (by,)
            pairs.append(_Pair(_place(key, after[key]), one, two, job_ratio(one, two, bases)))
    return pairs


def _ids(group: Iterable[Entry]) -> list[str]:
    return [row.trace_id for entry in group for row in entry.timed if row.trace_id]


def _place(key: Key, entry: Entry) -> Place:
    hardware, definition, solution, workload = key
    return Place(hardware, definition, solution, workload, entry.newest.axes)


def _newest(pair: _Pair) -> tuple[TraceRow, TraceRow]:
    return pair.old.newest, pair.new.newest


def _is_control(pair: _Pair) -> bool:
    """Whether the references are the same code, measured anew."""
    if not pair.old.rows or not pair.new.rows or pair.ratio.source is Source.SAME_TRACE:
        return False
    return has_same_reference(*_newest(pair))


def _widened(
    ratios: Sequence[JobRatio], controls: Sequence[tuple[float, Interval | None]]
) -> list[JobRatio]:
    """Let every interval know how runs differ, where something tells."""
    by_basis = {basis: luck(ratios, controls, basis) for basis in Basis}
    return [
        each if (known := by_basis[each.basis]) is None else widened(each, known, len(controls))
        for each in ratios
    ]


def _compared(pair: _Pair, ratio: JobRatio, threshold: float) -> ComparedJob:
    found = verdict(ratio.interval, threshold=threshold)
    reason = ratio.reason
    if found is Verdict.UNDECIDED and not reason:
        reason = ACROSS
    old, new = (side.newest if side.rows else None for side in (pair.old, pair.new))
    return ComparedJob(
        place=pair.place,
        old_latency_ms=old.latency_ms if old else None,
        new_latency_ms=new.latency_ms if new else None,
        ratio=ratio.value,
        interval=ratio.interval,
        verdict=found,
        reason=reason if found is Verdict.UNDECIDED else "",
        basis=ratio.basis,
        source=ratio.source,
        old_runs=len(pair.old.rows),
        new_runs=len(pair.new.rows),
        old_max_absolute_error=old.max_absolute_error if old else None,
        new_max_absolute_error=new.max_absolute_error if new else None,
    )


def _overall(
    hardware: str,
    jobs: Sequence[ComparedJob],
    controls: Sequence[tuple[float, Interval | None]],
    between_runs: float | None,
    threshold: float,
) -> Overall:
    ratios = [(job.ratio, job.interval) for job in jobs if job.ratio is not None]
    interval = mean_interval(ratios) if len(ratios) == len(jobs) else None
    found = verdict(interval, threshold=threshold)
    lacking = sum(job.interval is None for job in jobs)
    reason = f"{lacking} of {len(jobs)} have no interval" if lacking else ACROSS
    return Overall(
        hardware=hardware,
        ratio=geometric_mean([ratio for ratio, _ in ratios]),
        interval=interval,
        verdict=found,
        reason=reason if found is Verdict.UNDECIDED else "",
        verdicts=dict(sorted(Counter(str(job.verdict) for job in jobs).items())),
        between_runs=between_runs,
        reference_ratio=geometric_mean([1 / ratio for ratio, _ in controls]),
    )


def _changes(before: Entries, after: Entries) -> tuple[ChangedJob, ...]:
    found = []
    for key in sorted(before.keys() | after.keys()):
        old, new = before.get(key), after.get(key)
        change = _change(old, new)
        entry = new or old
        if change is not None and entry is not None:
            found.append(ChangedJob(_place(key, entry), change, _status(old), _status(new)))
    return tuple(found)


def _change(old: Entry | None, new: Entry | None) -> Change | None:
    if old is None or new is None:
        return Change.NEW if old is None else Change.MISSING
    if old.is_passed and new.is_passed:
        return None
    if old.is_passed or new.is_passed:
        return Change.BROKE if old.is_passed else Change.MENDED
    return Change.FAILS


def _status(entry: Entry | None) -> str | None:
    return None if entry is None else entry.newest.status


def _remarks(pairs: Sequence[_Pair], overall: Sequence[Overall]) -> tuple[str, ...]:
    by_latency = {pair.place.hardware for pair in pairs if pair.ratio.basis is Basis.LATENCY}
    remarks = [*_moved_machines(overall, by_latency), *_changed_libraries(pairs)]
    unknown = {each.hardware for each in overall if each.between_runs is None}
    few = [
        pair
        for pair in pairs
        if pair.place.hardware in unknown
        and pair.ratio.source in {Source.SAMPLES, Source.INTERVALS}
    ]
    if few:
        remarks.append(
            "intervals know the noise within a run, not how one process differs from the next: four runs of each "
            "side do, and so does `flashinfer-bench ab`"
        )
    return tuple(remarks)


def _moved_machines(overall: Sequence[Overall], by_latency: set[str]) -> list[str]:
    remarks = []
    for each in overall:
        if each.reference_ratio and abs(each.reference_ratio - 1) > THRESHOLD:
            off = "and ratios of them" if each.hardware in by_latency else "alone"
            remarks.append(
                f"on {each.hardware} the references, the same code on both sides, took "
                f"{1 / each.reference_ratio:.2f} times as long on the new side: latencies {off} are off by that"
            )
    return remarks


def _changed_libraries(pairs: Sequence[_Pair]) -> list[str]:
    changed: set[str] = set()
    for pair in pairs:
        if pair.old.rows and pair.new.rows:
            old, new = (row.libs for row in _newest(pair))
            names = old.keys() & new.keys()
            changed |= {
                f"{name} {old[name]} -> {new[name]}" for name in names if old[name] != new[name]
            }
    return [f"other libraries: {', '.join(sorted(changed))}"] if changed else []
