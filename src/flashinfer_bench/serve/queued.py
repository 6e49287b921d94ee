"""What goes into the queue and comes out of it, as values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """What one server takes, and how patient it is."""

    lease_s: float = 30.0
    most_waiting: int = 100_000
    forgotten_s: float = 60.0
    """A worker that was not heard of for so long is not there."""


@dataclass(frozen=True, slots=True)
class KnownResult:
    """A result of an earlier task that answers a workload."""

    workload: str
    hardware: str
    trace: str
    cache_key: str


@dataclass(frozen=True, slots=True)
class NewBatch:
    """A batch to come: where it may run, and what is known of it already."""

    hardware: str | None
    requirement: str
    known: tuple[KnownResult, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTask:
    """A task to come."""

    tenant: str
    definition: str
    names: tuple[str, str]
    """What its solution may be called; the second where the first is other code's."""
    solution_hash: str
    author: str
    documents: tuple[str, str]
    """The solution as JSON, under each name."""
    workloads: tuple[str, ...]
    hardware: str
    is_fresh: bool
    request_hash: str
    idempotency_key: str | None = None
    batches: tuple[NewBatch, ...] = ()
    error: str | None = None
    """Why it fails at once."""


@dataclass(frozen=True, slots=True)
class Leased:
    """A batch in a worker's hands."""

    lease: str
    task: str
    attempt: int
    definition: str
    document: str
    workloads: tuple[str, ...]
    """Those without a result."""


@dataclass(frozen=True, slots=True)
class StoredResult:
    """How a workload ended, as it is stored."""

    workload: str
    hardware: str
    trace: str | None
    reason: str | None
    samples: str | None
    cache_key: str | None
    signature: str | None = None
    """The line that says who signed the trace."""
