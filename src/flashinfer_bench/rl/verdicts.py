"""What a training loop is told of one kernel: values, and nothing of how they came about."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Split = Literal["train", "validation", "test"]
Cause = Literal["budget", "dataset", "device", "disk", "machine", "service", "worker"]
"""Why there is no verdict: never the kernel's doing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeBudget:
    """What one verdict may cost."""

    device_seconds: float = 60.0
    """Time on the device, the reference's included. It is looked at between workloads: one that hangs takes as long
    as the time limit of the settings on top."""
    workloads: int | None = None
    """Only the first so many workloads of the split; None takes all."""


@dataclass(frozen=True, slots=True)
class JudgeCost:
    """What one answer has cost."""

    device_seconds: float = 0.0
    """How long it held the device."""
    wall_seconds: float = 0.0
    """From the question to the answer; kernels that are judged together share this time."""
    builds: int = 0
    """How often the sources were built or loaded into a new process."""
    build_seconds: float = 0.0
    """How long the longest of these took, where the kernel passed somewhere; 0 where that is not known."""


@dataclass(frozen=True, slots=True)
class WorkloadVerdict:
    """How a kernel did on one workload."""

    axes: dict[str, int]
    status: str
    """As in a trace: PASSED, INCORRECT_NUMERICAL and so on."""
    speedup: float | None = None
    speedup_lower: float | None = None
    """Lower end of its 95% interval."""
    sol_fraction: float | None = None
    """Share of the roofline."""
    gain: float | None = None
    """What the reward takes of it: 0.5 as fast as the reference, 1 at the roofline; None where nothing was timed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelVerdict:
    """What is known of one kernel on one split of one definition; with `no_verdict` nothing is held against it."""

    candidate: str
    """Hash of its content: the same sources have the same."""
    definition: str
    split: Split
    reward: float | None
    """From -1 to 1; None where there is no verdict."""
    cause: Cause | None = None
    no_verdict: str | None = None
    """Why there is no verdict, in a sentence."""
    built: bool | None = None
    right: bool | None = None
    """Whether every workload of the split passed."""
    audited: bool | None = None
    """Whether timed calls and reported times were checked, in a whole sandbox, and nothing was found."""
    right_share: float | None = None
    """Share of the workloads that passed; those that were not tried did not."""
    speedup: float | None = None
    """Geometric mean over workloads; None unless all were right and timed."""
    speedup_lower: float | None = None
    """Geometric mean of the lower ends of the 95% intervals."""
    sol_fraction: float | None = None
    """Mean share of the roofline, 1 at most a workload."""
    violations: tuple[str, ...] = ()
    """Rules of evaluation that it broke."""
    stopped: str | None = None
    """Why workloads were left out."""
    tried: int = 0
    total: int = 0
    """Workloads of the split that count: weak ones are left out."""
    weak: int = 0
    """Workloads that were left out because less than the work passes there."""
    workloads: tuple[WorkloadVerdict, ...] = ()
    """Empty for `test`."""
    feedback: str = ""
    """What would help, at most 2,000 tokens; nothing of the workloads for `test`."""
    hardware: str = ""
    is_duplicate: bool = False
    """Whether the same content was judged before, and this is that verdict."""
    cost: JudgeCost = field(default_factory=JudgeCost)
