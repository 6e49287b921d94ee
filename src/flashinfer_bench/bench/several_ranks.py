"""Jobs of several ranks: which library connects them, and which jobs cannot be run here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from flashinfer_bench.errors import UsageError

if TYPE_CHECKING:
    from flashinfer_bench.bench.jobs import Job
    from flashinfer_bench.data import Definition

Backend = Literal["gloo", "nccl"]

UNCHECKED = (
    "processor_time",
    "early_compute",
    "batches",
    "precision",
    "unusual_inputs",
    "task_notes",
)
"""What is looked at in other jobs and not in those of several ranks; traces name it."""


def require_one_rank(definition: Definition, what: str) -> None:
    """Refuse what looks at one process only."""
    if definition.world_size is not None:
        raise UsageError(
            f"{definition.name} has {definition.world_size} ranks, and {what} looks at one process; "
            "`run`, `check` and `replay` run all ranks"
        )


def backend_of(device: str) -> Backend:
    """Name the library that connects ranks on a kind of device.

    >>> backend_of("cpu"), backend_of("cuda:0")
    ('gloo', 'nccl')
    """
    return "gloo" if device.partition(":")[0] == "cpu" else "nccl"


def why_not_here(job: Job, *, kind: str, device_count: int, sandbox: str) -> str | None:
    """Say why a job of several ranks cannot be run on so many devices of a kind, and what to do.

    None where it can, and for a job of one rank. On a CPU ranks share the processor.
    """
    ranks = job.definition.world_size
    if ranks is None:
        return None
    if kind != "cpu" and device_count < ranks:
        return (
            f"needs {ranks} devices, one for each rank, and the run has {device_count} of one model; "
            f"--device {','.join(f'{kind}:{index}' for index in range(ranks))} names more"
        )
    if sandbox == "container":
        return "needs --sandbox process: a container has a network of its own, so ranks do not meet"
    if job.opponent is not None:
        return "has several ranks; ab times one process a side"
    if job.config.launch == "graph":
        return "has several ranks; --launch graph is for one"
    if kind == "cpu" and job.config.cache in ("cold", "both"):
        return "has several ranks; on a CPU they are timed with hot caches only (--cache hot)"
    if job.config.lock_clocks:
        return "has several ranks; --lock-clocks holds the clocks of one card"
    if job.config.cache == "both":
        return "has several ranks; --cache both is for one"
    return None
