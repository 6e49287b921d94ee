"""What a comparison of two sides is: its jobs, what changed, and the verdict over all."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashinfer_bench.report.compare.ratios import Source

if TYPE_CHECKING:
    from flashinfer_bench.report.compare.ratios import Basis
    from flashinfer_bench.stats.intervals import Interval
    from flashinfer_bench.stats.verdicts import Verdict

ACROSS = "its interval reaches across the threshold"
BY_CHANCE = "one of {} jobs lies so far off by chance"
SAME_TRACES = "nothing was compared: both sides hold the same traces"


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
class JobIdentity:
    """Which job; empty where it is what the two sides differ in."""

    hardware: str
    definition: str
    solution: str
    workload: str
    axes: dict[str, int]
    has_twins: bool = False
    """Whether other workloads of the definition have the same axes, which then do not tell it."""


@dataclass(frozen=True, slots=True)
class ComparedJob:
    """A job that passed on both sides."""

    place: JobIdentity
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
    freedom: int | None
    """Degrees of freedom of the interval: a Student's t of so many gives those of other confidences."""
    old_runs: int
    new_runs: int
    old_max_absolute_error: float | None
    new_max_absolute_error: float | None
    judged_otherwise: tuple[str, ...] | None = None
    """What it was judged by that differs: the definition, tolerances; None where a trace does not say."""

    @property
    def is_same_trace(self) -> bool:
        """Whether it was compared with itself."""
        return self.source is Source.SAME_TRACE


@dataclass(frozen=True, slots=True)
class ChangedJob:
    """A job without a time on both sides."""

    place: JobIdentity
    change: Change
    old_status: str | None
    new_status: str | None
    reason: str = ""
    """Why it fails on the new side: the rule it broke, and the line of its log that says what is wrong."""
    judged_otherwise: tuple[str, ...] | None = None
    """What it was judged by that differs; None where a trace does not say."""
    is_same_trace: bool = False
    """Whether both sides hold the same trace of it."""


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
    freedom: int | None
    """The least of any job's."""
    between_runs: float | None
    """By how much two runs of the same code are taken to differ, as a share; None where whole runs are compared."""
    between_runs_observed: int
    """How many observations that rests on; without any it is assumed."""
    shows_beyond: float | None
    """How far the interval of the middle job reaches, as a share; None where whole runs are compared."""
    runs_to_decide: int | None
    """How many runs of each side would decide half of the undecided jobs; None where there are none."""
    reference_ratio: float | None
    """How many times faster the references were, where they are the same code on both sides."""


@dataclass(frozen=True, slots=True)
class ComparisonReport:
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
