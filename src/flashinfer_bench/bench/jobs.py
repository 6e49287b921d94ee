"""A job: one solution on one workload, and the kind of device it runs on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from flashinfer_bench.data.wording import axes_text

if TYPE_CHECKING:
    from flashinfer_bench.bench.config import ResolvedEvalConfig
    from flashinfer_bench.data import Definition, Solution, Workload


@dataclass(frozen=True, slots=True)
class Target:
    """What kind of device jobs will run on, as far as the plan must know; devices with equal ones share jobs."""

    kind: str
    hardware: str
    threads: int
    clock: str = field(default="")
    """Name of the clock, where it is not left to the settings."""
    arch: str | None = None
    """GPU architecture to compile for, when one was asked for."""
    device_count: int = 1
    """How many such devices the run has: a job of several ranks needs one for each, but on a CPU."""

    @property
    def workload_class(self) -> str:
        """Class of workloads that is the default on this kind of device."""
        return "full" if self.kind == "cuda" else "small"


@dataclass(frozen=True, slots=True)
class Job:
    """One solution on one workload; with an opponent, two solutions timed against each other."""

    definition: Definition
    solution: Solution
    workload: Workload
    config: ResolvedEvalConfig
    config_hash: str
    opponent: Solution | None = None
    calls_per_sample: int | None = None
    """As many as an earlier job had; chosen by how long a call takes when not given."""
    key: int | None = None
    """The key an earlier job had; each attempt draws its own when not given."""
    target: Target | None = None
    """Where it is to run; any device where not given."""
    best_speedup: float | None = None
    """The best known of its workload, where whoever sends the job knows it; one that races may stop far below."""
    unraced_hash: str = ""
    """`config_hash` without `racing`: what was judged and timed alike but for that may be raced."""
    is_unseen: bool = False
    """Whether its workload is none of the dataset's: it runs if all jobs of its batch before it passed."""

    @property
    def label(self) -> str:
        """Short text for progress and logs."""
        unseen = " (unseen)" if self.is_unseen else ""
        return f"{self.solution.name} on {axes_text(self.workload.axes)}{unseen}"
