"""What a pool tells of while it works, beside the jobs that end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

Stage = Literal["built", "checked", "trial"]

if TYPE_CHECKING:
    from flashinfer_bench.bench.jobs import Job


@dataclass(frozen=True, slots=True)
class Started:
    """A device began a job."""

    device: str
    job: Job


@dataclass(frozen=True, slots=True)
class Waiting:
    """A device is in use by another benchmark."""

    device: str
    holder: str = ""
    """Who that is, as a clause; empty where it is not known."""


@dataclass(frozen=True, slots=True)
class Building:
    """Solutions are compiled ahead; none when that is over for now."""

    solutions: tuple[str, ...]
    left: int = 0
    """How many more are to be looked at."""


@dataclass(frozen=True, slots=True)
class Lost:
    """A device does no more jobs of this run; others do what it left."""

    device: str
    reason: str
    is_fault: bool = True
    """Whether the device failed at its jobs; False where its machine left."""


@dataclass(frozen=True, slots=True)
class Reached:
    """A job came further: its solution's process is ready, its first results were right, a trial is timed."""

    device: str
    job: Job
    stage: Stage
    trial: int = 0
    """From 1; 0 where it is about no trial."""
    trials: int = 0


Progress = Started | Waiting | Building | Reached | Lost
