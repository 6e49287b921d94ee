"""Where each of two sides wins along the axes, where that turns, and how their sources and builds differ."""

from __future__ import annotations

import difflib
import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from flashinfer_bench.report.compare.result import Change
from flashinfer_bench.stats.verdicts import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from flashinfer_bench.compile.instructions import InstructionCounts
    from flashinfer_bench.report.compare.result import (
        ChangedJob,
        ComparedJob,
        ComparisonReport,
        JobIdentity,
    )
    from flashinfer_bench.stats.intervals import Interval

Winner = Literal["a", "b", "same", "undecided"]
_WINNERS: Mapping[Verdict, Winner] = {
    Verdict.FASTER: "b",
    Verdict.SLOWER: "a",
    Verdict.SAME: "same",
}
_ONLY_A = frozenset({Change.BROKE, Change.MISSING})
_ONLY_B = frozenset({Change.MENDED, Change.NEW})


@dataclass(frozen=True, slots=True)
class ExplainedJob:
    """A workload that both sides passed."""

    workload: str
    axes: dict[str, int]
    a_latency_ms: float | None
    b_latency_ms: float | None
    ratio: float | None
    """How many times faster B is."""
    interval: Interval | None
    """95%."""
    winner: Winner


@dataclass(frozen=True, slots=True)
class OneSidedJob:
    """A workload that has a time on one side only, or on none."""

    workload: str
    axes: dict[str, int]
    passed: Literal["a", "b", "neither"]
    a_status: str | None
    """None where there is no trace of it."""
    b_status: str | None


@dataclass(frozen=True, slots=True)
class AxisRange:
    """Along one axis: between which values a side wins."""

    axis: str
    winner: Literal["a", "b"]
    least: int
    most: int
    workloads: int


@dataclass(frozen=True, slots=True)
class CrossOver:
    """Two neighbours along an axis, other axes equal, of which each side wins one."""

    axis: str
    others: dict[str, int]
    below: int
    above: int
    wins_below: Literal["a", "b"]
    wins_above: Literal["a", "b"]
    estimate: float | None
    """Where both would take the same time: the ratio's logarithm between the two, taken as a line over the axis's."""


@dataclass(frozen=True, slots=True)
class ExplainedGroup:
    """One definition on one kind of hardware."""

    hardware: str
    definition: str
    solution: str
    """Empty where the two sides are solutions."""
    wins: dict[str, int]
    """Workloads by winner: a, b, same, undecided."""
    ranges: tuple[AxisRange, ...]
    cross_overs: tuple[CrossOver, ...]
    jobs: tuple[ExplainedJob, ...]
    one_sided: tuple[OneSidedJob, ...]


@dataclass(frozen=True, slots=True)
class SourceChange:
    """One file that is not the same on both sides."""

    a_path: str | None
    b_path: str | None
    removed: int
    """Lines that only A has."""
    added: int
    """Lines that only B has."""
    diff: str
    """Unified."""


@dataclass(frozen=True, slots=True)
class BuiltKernel:
    """What the compiler made of one kernel, as a recorded profile says."""

    name: str
    registers: int | None
    spill_bytes: int | None
    stack_bytes: int | None
    shared_memory_bytes: int | None
    instructions: InstructionCounts | None = None


@dataclass(frozen=True, slots=True)
class BuiltSide:
    """One side's kernels, from its newest profile."""

    solution: str
    hardware: str
    tool: str
    kernels: tuple[BuiltKernel, ...]


@dataclass(frozen=True, slots=True)
class MissingEvidence:
    """What cannot be said, and the command that would fill it."""

    what: str
    command: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """Two sides side by side; A is the one that was named first."""

    kind: str
    a: str
    b: str
    groups: tuple[ExplainedGroup, ...]
    sources: tuple[SourceChange, ...]
    a_built: BuiltSide | None
    b_built: BuiltSide | None
    missing: tuple[MissingEvidence, ...]
    remarks: tuple[str, ...]
    """What the intervals do not know."""


def explained_groups(comparison: ComparisonReport) -> tuple[ExplainedGroup, ...]:
    """Sort a comparison by hardware and definition, and each group along its axes."""
    named = [each.place for each in comparison.jobs] + [each.place for each in comparison.changes]
    places = dict.fromkeys(map(_group, named))
    return tuple(
        _explained(
            place,
            [each for each in comparison.jobs if _group(each.place) == place],
            [each for each in comparison.changes if _group(each.place) == place],
        )
        for place in places
    )


def _group(place: JobIdentity) -> tuple[str, str, str]:
    return place.hardware, place.definition, place.solution


def _explained(
    place: tuple[str, str, str], compared: Sequence[ComparedJob], changed: Sequence[ChangedJob]
) -> ExplainedGroup:
    jobs = sorted(map(_job, compared), key=lambda job: sorted(job.axes.items()))
    wins = {key: sum(job.winner == key for job in jobs) for key in ("a", "b", "same", "undecided")}
    axes = list(dict.fromkeys(axis for job in jobs for axis in job.axes))
    varied = [axis for axis in axes if len({job.axes.get(axis) for job in jobs}) > 1]
    ranges = [found for axis in varied for found in _ranges(axis, jobs)]
    turns = [found for axis in varied for found in _cross_overs(axis, jobs)]
    one_sided = tuple(map(_one_sided, changed))
    return ExplainedGroup(*place, wins, tuple(ranges), tuple(turns), tuple(jobs), one_sided)


def _job(each: ComparedJob) -> ExplainedJob:
    return ExplainedJob(
        each.place.workload,
        each.place.axes,
        each.old_latency_ms,
        each.new_latency_ms,
        each.ratio,
        each.interval,
        _WINNERS.get(each.verdict, "undecided"),
    )


def _one_sided(each: ChangedJob) -> OneSidedJob:
    passed: Literal["a", "b", "neither"] = "neither"
    if each.change in _ONLY_A:
        passed = "a" if each.old_status == "PASSED" else "neither"
    elif each.change in _ONLY_B:
        passed = "b" if each.new_status == "PASSED" else "neither"
    place = each.place
    return OneSidedJob(place.workload, place.axes, passed, each.old_status, each.new_status)


def _ranges(axis: str, jobs: Sequence[ExplainedJob]) -> Iterator[AxisRange]:
    winners: tuple[Literal["a", "b"], ...] = ("a", "b")
    for winner in winners:
        won = [job.axes[axis] for job in jobs if job.winner == winner and axis in job.axes]
        if won:
            yield AxisRange(axis, winner, min(won), max(won), len(won))


def _cross_overs(axis: str, jobs: Sequence[ExplainedJob]) -> Iterator[CrossOver]:
    """Find decided neighbours along an axis that different sides win; undecided ones between are passed over."""
    rows: dict[tuple[tuple[str, int], ...], list[ExplainedJob]] = {}
    for job in jobs:
        if axis in job.axes and job.winner in {"a", "b"}:
            others = tuple((name, size) for name, size in job.axes.items() if name != axis)
            rows.setdefault(others, []).append(job)
    for others, row in rows.items():
        row.sort(key=lambda job: job.axes[axis])
        for low, high in itertools.pairwise(row):
            below, above = low.axes[axis], high.axes[axis]
            if low.winner != high.winner and below < above:
                yield CrossOver(
                    axis, dict(others), below, above,
                    low.winner, high.winner, _turn(axis, low, high),  # type: ignore[arg-type]  # a or b
                )  # fmt: skip


def _turn(axis: str, low: ExplainedJob, high: ExplainedJob) -> float | None:
    """Give where the ratio is 1 between two workloads, on logarithmic scales."""
    below, above = low.axes[axis], high.axes[axis]
    if not low.ratio or not high.ratio or below <= 0:
        return None
    start, end = math.log(low.ratio), math.log(high.ratio)
    if start * end >= 0:
        return None
    share = start / (start - end)
    return math.exp(math.log(below) + share * math.log(above / below))


def source_changes(a: Mapping[str, str], b: Mapping[str, str]) -> tuple[SourceChange, ...]:
    """Diff two solutions' files by path, content by path; one file on each side is compared whatever it is called."""
    pairs = [(path if path in a else None, path if path in b else None) for path in {**a, **b}]
    if len(a) == len(b) == 1:
        pairs = [(*a, *b)]  # type: ignore[list-item]  # one key each
    found = (_source_change(one, a.get(one or "", ""), two, b.get(two or "", "")) for one, two in pairs)  # fmt: skip
    return tuple(each for each in found if each is not None)


def _source_change(one: str | None, old: str, two: str | None, new: str) -> SourceChange | None:
    if old == new and one is not None and two is not None:
        return None
    lines = list(
        difflib.unified_diff(
            old.splitlines(),
            new.splitlines(),
            f"a/{one}" if one else "/dev/null",
            f"b/{two}" if two else "/dev/null",
            lineterm="",
        )
    )
    removed = sum(line.startswith("-") for line in lines[2:])
    added = sum(line.startswith("+") for line in lines[2:])
    return SourceChange(one, two, removed, added, "\n".join(lines))
