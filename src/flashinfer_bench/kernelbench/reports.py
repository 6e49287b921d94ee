"""How candidates for KernelBench's problems did: KernelBench's own keys, and ours beside them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flashinfer_bench.report.run import Fault, SkippedJob
    from flashinfer_bench.stats.intervals import Interval

NOT_MEASURED = -1.0
"""What KernelBench writes where there is no time."""


@dataclass(frozen=True, slots=True)
class AgainstBaseline:
    """How many times faster than a baseline."""

    speedup: float
    speedup_interval: Interval | None
    baseline_latency_ms: float | None


@dataclass(frozen=True, slots=True)
class SampleReport:
    """One candidate; the first block of keys is KernelBench's, times in milliseconds."""

    level: int | None
    problem_id: int | None
    sample_id: int
    compiled: bool
    correctness: bool
    runtime: float
    runtime_stats: dict[str, Any]
    ref_runtime: float
    ref_runtime_stats: dict[str, Any]
    metadata: dict[str, Any]

    problem: str
    path: str
    status: str
    latency_ms: float | None
    latency_interval_ms: Interval | None
    speedups: dict[str, AgainstBaseline]
    max_absolute_error: float | None
    max_relative_error: float | None
    violations: tuple[str, ...]
    notes: tuple[str, ...]
    log: str
    interpreted: bool = False


@dataclass(frozen=True, slots=True)
class BaselineReport:
    """A baseline on one problem."""

    problem: str
    name: str
    status: str
    latency_ms: float | None
    latency_interval_ms: Interval | None
    log: str


@dataclass(frozen=True, slots=True)
class ProblemReport:
    """What is known of one problem, and how its candidates were judged."""

    problem: str
    path: str
    atol: float
    rtol: float
    parameters: int
    is_random: bool
    scaled_inputs: tuple[str, ...]
    """Inputs that are what `get_inputs` made under the seed, times another factor in every call."""
    fixed_inputs: tuple[str, ...]
    """Inputs that hold the same in every call, as `get_inputs` made them under the seed."""
    is_same_in_every_call: bool
    """Whether all inputs do, so that a candidate that remembers its answer is not found out."""


@dataclass(frozen=True, slots=True)
class FastShare:
    """Which share of the samples is right and more than `threshold` times as fast as a baseline."""

    baseline: str
    threshold: float
    share: float
    surely: float
    """The same, where all of the speedup's interval lies beyond the threshold."""
    comparison: str = "speedup > threshold"


@dataclass(frozen=True, slots=True)
class EvalReport:
    """What one evaluation found."""

    hardware: str
    device: str
    seeds: tuple[int, ...]
    problems: tuple[ProblemReport, ...]
    samples: tuple[SampleReport, ...]
    baselines: tuple[BaselineReport, ...]
    fast_p: tuple[FastShare, ...]
    pass_at_k: dict[int, float]
    skipped: tuple[SkippedJob, ...] = ()
    faults: tuple[Fault, ...] = field(default=())
