"""How a job ended: one value of a closed union."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flashinfer_bench.bench.protocol import JobMisshapen, JobPassed, JobWrong


@dataclass(frozen=True, slots=True)
class Passed:
    """Right, and timed."""

    result: JobPassed
    log: str


@dataclass(frozen=True, slots=True)
class Wrong:
    """Values differ or the contract was broken; `result.explanation` shows where."""

    result: JobWrong
    log: str


@dataclass(frozen=True, slots=True)
class Misshapen:
    """An output has another shape or dtype."""

    result: JobMisshapen
    log: str


@dataclass(frozen=True, slots=True)
class Crashed:
    """The solution raised, ended its process or was ended by a signal."""

    explanation: str
    log: str


@dataclass(frozen=True, slots=True)
class TimedOut:
    """The solution ran into its deadline and was killed."""

    explanation: str
    log: str


@dataclass(frozen=True, slots=True)
class NotBuilt:
    """The source did not become a callable."""

    explanation: str
    log: str


@dataclass(frozen=True, slots=True)
class Skipped:
    """This machine cannot run it: no trace, and nobody's fault."""

    reason: str
    is_compiled: bool = False
    """Whether it was built, for a device that is not here."""


@dataclass(frozen=True, slots=True)
class DatasetFault:
    """The definition or the workload is at fault: no trace, and no solution is to blame."""

    explanation: str


@dataclass(frozen=True, slots=True)
class RivalFailed:
    """In a job of two solutions the second one, `Job.rival`, ended like this: no trace."""

    outcome: Outcome


Outcome = (
    Passed
    | Wrong
    | Misshapen
    | Crashed
    | TimedOut
    | NotBuilt
    | Skipped
    | DatasetFault
    | RivalFailed
)
