"""What travels between clients, server and workers: the bodies of requests and answers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from flashinfer_bench.data import Definition, Solution, Trace, Workload
from flashinfer_bench.data.entity import Entity, NonEmptyStr

MOST_BODY_BYTES = 2 << 20
MOST_RESULT_BYTES = 16 << 20
"""Of what workers send: logs and samples."""
MOST_FILES = 64
MOST_WAIT_S = 3600
MOST_TASKS = 1000
"""In one request for several."""
MOST_EVENTS = 64
"""In one heartbeat."""

Wait = Annotated[float, Field(ge=0, le=MOST_WAIT_S, allow_inf_nan=False)]
Name = Annotated[str, Field(min_length=1, max_length=200)]
TaskStatus = Literal["pending", "running", "completed", "failed"]
TaskOutcome = Literal["evaluated", "no_workloads", "not_evaluated", "infra_failed", "cancelled"]


class Endpoint(Entity):
    """One route."""

    method: str
    path: str
    description: str


class Overview(Entity):
    """What this server is."""

    name: str
    version: str
    docs: str
    endpoints: list[Endpoint]


class DefinitionName(Entity):
    """A definition, by name."""

    name: str
    description: str | None


class Submission(Entity):
    """A solution to evaluate."""

    solution: Solution
    workload_uuids: list[Name] | None = Field(None, max_length=10_000)
    """Workloads to run on; all of the device's class when left out or empty."""
    hardware: Name = "any"
    """`any` worker, `each` hardware that is known, or the name of one."""
    fresh: bool = False
    """Whether it is evaluated again, with other inputs, where a result is known."""


class Submitted(Entity):
    """A task that is on disk."""

    task_id: str
    normalized_solution_name: str
    """The name its traces carry: it ends in eight digits of its content's hash."""
    status: TaskStatus
    cached: bool = False
    """Whether all of it was known already."""


class LeftOutWorkload(Entity):
    """A workload that left no trace."""

    workload: str
    reason: str


class TaskState(Entity):
    """How far a task is. `completed` says nothing of whether the solution is right."""

    task_id: str
    status: TaskStatus
    definition: str
    solution: str
    """The normalised name."""
    traces: list[Trace] | None
    """Null until it has ended."""
    error: str | None
    """Why it failed."""
    outcome: TaskOutcome | None = None
    """How it ended: `infra_failed` is not the solution's fault."""
    cached: bool = False
    """Whether all traces are of an earlier task of yours with the same content."""
    hardware: str = "any"
    created_s: float = 0.0
    """Seconds since 1970."""
    ended_s: float | None = None
    ended_workloads: int = 0
    all_workloads: int = 0
    left_out: list[LeftOutWorkload] = Field(default_factory=list)
    waiting_for: str | None = None
    """Why nobody works at it."""


class ManyTasks(Entity):
    """Tasks to look at, or to wait for."""

    task_ids: list[Name] = Field(max_length=MOST_TASKS)
    timeout: Wait = 0.0
    """Seconds to wait until all have ended."""


class TaskLine(Entity):
    """A task in a list."""

    task_id: str
    status: TaskStatus
    outcome: TaskOutcome | None
    definition: str
    solution: str
    created_s: float
    ended_s: float | None
    number: int
    """Lists go from high to low; `before` takes one."""


class TaskList(Entity):
    """A page of tasks, the newest first."""

    tasks: list[TaskLine]
    next_before: int | None
    """`before` of the next page; null where this is the last."""


class TaskEvent(Entity):
    """Something that happened to a task; numbered from 1."""

    number: int
    time_s: float
    kind: str
    data: dict[str, Any]


class WorkerState(Entity):
    """A worker, as everybody may see it."""

    device: str
    healthy: bool
    hardware: str
    kind: str
    reason: str | None = None
    """Why it gets no work."""
    key: str | None = None
    """What its traces are signed with."""


class Health(Entity):
    """Whether evaluations get done."""

    status: Literal["ok", "draining"]
    workers: list[WorkerState]
    queue_size: int


class Alive(Entity):
    """The process answers."""

    status: Literal["ok", "draining"]


class Capability(Entity):
    """What a worker's device is, and what its machine can build."""

    device: NonEmptyStr
    """The device as its machine names it."""
    kind: Literal["cpu", "cuda"]
    hardware: Name
    threads: int = Field(ge=1)
    memory_bytes: int = Field(ge=0)
    languages: list[str]
    libs: dict[str, str]
    sandbox: str
    """Isolation levels that its machine offers."""
    version: str
    """Of flashinfer-bench."""


class Registration(Entity):
    """A worker that wants work."""

    name: Name
    """Of its machine; a newer worker of the same name and device takes the place of an older one."""
    capability: Capability
    key: str = Field(pattern=r"^[0-9a-f]{64}$")
    """Of ed25519, in hexadecimal digits: it signs its traces with the other half."""


class AcceptedWorker(Entity):
    """What a worker has to know."""

    worker: str
    lease_s: float
    """How long a lease holds without a heartbeat."""
    config: str
    """The operator's settings as JSON."""


class Grant(Entity):
    """A batch: one solution on some workloads."""

    lease: str
    task: str
    attempt: int
    definition: Definition
    solution: Solution
    workloads: list[Workload]
    config: str


class WorkerResult(Entity):
    """How one workload ended: a trace, or why there is none."""

    workload: Name
    trace: Trace | None = None
    reason: str | None = Field(None, max_length=10_000)
    samples: dict[str, list[float]] | None = None
    """Milliseconds by participant."""
    signature: str | None = Field(None, pattern=r"^[0-9a-f]{128}$")
    """Of the trace's line and the digest of its samples; a trace needs one."""


class WorkerEvent(Entity):
    """What a worker tells of its work."""

    kind: Literal["building", "waiting", "started", "built", "checked", "trial", "finished"]
    data: dict[str, str] = Field(max_length=8)


class Beat(Entity):
    """A worker is alive."""

    events: list[WorkerEvent] = Field(default_factory=list, max_length=MOST_EVENTS)


class LeaseState(Entity):
    """Whether a lease still holds."""

    is_held: bool
    """Whether to go on: not where the task was cancelled, or the batch was given to another."""


class Release(Entity):
    """A worker gives a batch back."""

    reason: str = Field(max_length=10_000)
    is_fault: bool
    """Whether its device failed."""


class RefusedRequest(Entity):
    """What is wrong with a request."""

    detail: str
