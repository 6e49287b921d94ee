"""How a job ended: one closed union, from the judge that decides to the line of the record.

The judge sends its decision. The parent adds the log, and what only it can see: a build that failed, a process that
ended, memory that ran out.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec


class JobNote(msgspec.Struct, frozen=True):
    """Something worth knowing, or a broken rule, with what was seen."""

    code: str
    evidence: str


class Errors(msgspec.Struct, frozen=True):
    """Largest differences over all elements, outputs and trials; the share that matched; precision."""

    max_absolute: float
    max_relative: float
    matched_ratio: float
    precision: dict[str, float] | None = None
    extra: dict[str, Any] = {}
    """More for `correctness.extra`: figures of special judges, what unusual draws did."""
    is_repeatable: bool | None = None
    """Whether the same inputs gave the same bits twice; None where nobody looked."""


class Samples(msgspec.Struct, frozen=True):
    """Per-call times of one participant in nanoseconds, block by block."""

    participant: str
    is_reference: bool
    blocks_ns: tuple[tuple[float, ...], ...]
    calls_per_sample: int
    host_ns: float | None = None
    """How long a call keeps the host, where that is not what was timed."""
    launches: float | None = None
    """How many pieces of work a call gives the device, where that was counted."""


class Energy(msgspec.Struct, frozen=True):
    """What calls back to back took from a counter of energy, or why that is not known."""

    missing: str | None = None
    source: Literal["nvml", "rapl"] = "nvml"
    call_mj: float = 0.0
    """Millijoules of one call: mean power over the time of one call."""
    segments_mj: tuple[float, ...] = ()
    """The same, from one stretch of readings after the other."""
    power_w: float = 0.0
    call_ns: float = 0.0
    """How long a call took, back to back with others."""
    seconds: float = 0.0
    """How long the counter was read for."""


class Roofline(msgspec.Struct, frozen=True):
    """What a call has to do, what the device can do at most, and the share of that a solution reached."""

    bytes_moved: float
    flops: float | None
    sol_fraction: float | None
    ceilings: dict[str, float]


class MachineConditions(msgspec.Struct, frozen=True):
    """What the machine was like: blocks that did not count, ranges of gauges, what disturbed blocks that do."""

    blocks_discarded: int = 0
    gauges: dict[str, tuple[float, float]] = {}
    disturbed: dict[str, int] = {}
    begun_again: int = 0


class _Ending(msgspec.Struct, frozen=True, tag=True):
    """One way in which a job ends."""


class Passed(_Ending, frozen=True):
    """Right, and timed; `opponent_errors` are those of a second solution in the same job."""

    errors: Errors
    samples: tuple[Samples, ...]
    notes: tuple[JobNote, ...]
    bytes_moved: int
    peak_memory_bytes: int
    log: str = ""
    prepare_ms: float | None = None
    plan_ms: float | None = None
    opponent_errors: Errors | None = None
    roofline: Roofline | None = None
    unaccounted_ns: float | None = None
    """Work per call that could lie beside the claim unseen, with 95%; None where it cannot be told."""
    machine: MachineConditions = MachineConditions()
    task_notes: tuple[JobNote, ...] | None = ()
    """How the task itself is weak: not the solution's fault; None where memory did not suffice to look."""
    stopping_rule: Annotated[str, msgspec.Meta(min_length=1)] = "a fixed number of samples"
    stopped_by: Literal["iterations", "interval", "time_budget", "most_blocks", "behind"] = (
        "iterations"
    )
    hot_samples: tuple[Samples, ...] = ()
    """Where hot caches were timed after cold ones: `samples` are the cold ones then."""
    energy: Energy | None = None


class Wrong(_Ending, frozen=True):
    """Values differ or the contract was broken; `explanation` shows where."""

    errors: Errors
    explanation: str
    violations: tuple[JobNote, ...]
    notes: tuple[JobNote, ...]
    log: str = ""
    participant: str = ""


class Suspect(_Ending, frozen=True):
    """Right, but its claims do not fit what was seen from outside: to be attempted again before it counts."""

    errors: Errors
    violations: tuple[JobNote, ...]
    notes: tuple[JobNote, ...]
    log: str = ""
    participant: str = ""
    is_opponents: bool = False
    """Whether it is the second solution of the job whose claims do not fit: the parent knows."""
    is_disturbed: bool = False
    """Whether other programs, the host or heat disturbed the machine meanwhile."""


class Misshapen(_Ending, frozen=True):
    """An output has another shape or dtype."""

    kind: Literal["shape", "dtype"]
    explanation: str
    log: str = ""
    participant: str = ""


class Crashed(_Ending, frozen=True):
    """The solution raised, gave back something that is no output, ended its process or was ended by a signal."""

    explanation: str
    log: str = ""
    participant: str = ""


class TimedOut(_Ending, frozen=True):
    """The solution ran into its deadline and was killed."""

    explanation: str
    log: str = ""
    participant: str = ""


class Aborted(_Ending, frozen=True):
    """A participant's channel broke or closed; the parent finds out why, and makes another ending of it."""

    participant: str
    explanation: str


class NotBuilt(_Ending, frozen=True):
    """The source did not become a callable."""

    explanation: str
    log: str = ""


class Skipped(_Ending, frozen=True):
    """This machine cannot run it: no trace, and nobody's fault."""

    reason: str
    is_compiled: bool = False
    """Whether it was built, for a device that is not here."""


class DatasetFault(_Ending, frozen=True):
    """The definition or the workload is at fault: no trace, and no solution is to blame."""

    explanation: str


class OpponentFailed(_Ending, frozen=True):
    """In a job of two solutions the second one, `Job.opponent`, ended like this: no trace."""

    outcome: Outcome


Decision = (
    Passed | Wrong | Suspect | Misshapen | Crashed | TimedOut | Aborted | Skipped | DatasetFault
)
"""What the judge decides."""

Outcome = (
    Passed
    | Wrong
    | Misshapen
    | Crashed
    | TimedOut
    | NotBuilt
    | Skipped
    | DatasetFault
    | OpponentFailed
)
"""What a job becomes, once the parent knows how it came about."""
