"""Tasks, batches, leases and results in the store; every change of state is one transaction.

A task is one solution; a batch of it is what one device does. A lease is a batch in a worker's hands, and ends with
its last result, with a release, or when no heartbeat came in time: a result that comes later is refused.
"""

from __future__ import annotations

import json
import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flashinfer_bench.serve.messages import Capability
from flashinfer_bench.serve.refusals import RefusedError, no_task
from flashinfer_bench.serve.states import ENDED
from flashinfer_bench.text.numbers import count_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from flashinfer_bench.serve.database import Database, Row, Statements

MOST_TRIES = 3
"""In a row, without a result: then the machines are at fault."""
OWN = "server"
"""What a server calls the workers that it starts itself."""
_MOST_STRIKES = 3
_DAY_S = 86_400.0
_MINUTE_S = 60.0
_MOST_TOLD = 2_000
"""Events of a task that workers tell; what the server itself says always has room."""
_BEGINS = ("building", "started")
"""What a worker tells once it touches a solution: only then its death may be that solution's doing."""


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


class Queue:
    """What is to be done, by whom, and what became of it."""

    def __init__(
        self,
        database: Database,
        limits: QueueLimits,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self.limits = limits
        self._clock = clock

    # Tasks

    def add(self, task: NewTask) -> Row:
        """Put a task on disk; one with the same idempotency key is given back instead."""
        now_s = self._clock()
        with self._database.transaction() as say:
            if found := _with_same_key(say, task):
                return found
            self._require_room(say, task, now_s)
            name, document = _named(say, task)
            task_id = secrets.token_hex(16)
            number = 1 + (say.value("SELECT max(number) FROM tasks") or 0)
            say.change(
                "INSERT INTO tasks VALUES (:id, :number, :tenant, 'pending', NULL, NULL, :definition, :solution,"
                " :document, :workloads, :hardware, :fresh, :key, :request_hash, :now, NULL)",
                id=task_id,
                number=number,
                tenant=task.tenant,
                definition=task.definition,
                solution=name,
                document=document,
                workloads=json.dumps(task.workloads),
                hardware=task.hardware,
                fresh=int(task.is_fresh),
                key=task.idempotency_key,
                request_hash=task.request_hash,
                now=now_s,
            )
            for batch in task.batches:
                self._add_batch(say, batch, task_id, number, task)
            if task.error is not None:
                self._end_task(say, task_id, "failed", "no_workloads", task.error)
            else:
                ahead = say.value(
                    "SELECT count(*) FROM batches WHERE state = 'waiting' AND number < :number",
                    number=number,
                )
                self._note(say, task_id, "queued", place=ahead + 1)
                self._end_if_done(say, task_id)
            return _task(say, task_id)

    def _require_room(self, say: Statements, task: NewTask, now_s: float) -> None:
        if say.value("SELECT count(*) FROM batches WHERE state = 'waiting'") >= (
            self.limits.most_waiting
        ):
            raise RefusedError(503, "the queue is full; try again later", retry_after_s=60)
        tenant = say.row("SELECT * FROM tenants WHERE name = :name", name=task.tenant)
        assert tenant is not None
        _require_within_quotas(say, tenant, now_s)

    def _add_batch(
        self, say: Statements, batch: NewBatch, task_id: str, number: int, task: NewTask
    ) -> None:
        batch_id = secrets.token_hex(16)
        is_known = bool(batch.known)
        say.change(
            "INSERT INTO batches (id, task, number, tenant, hardware, requirement, state, ended_s) VALUES"
            " (:id, :task, :number, :tenant, :hardware, :requirement, :state, :ended_s)",
            id=batch_id,
            task=task_id,
            number=number,
            tenant=task.tenant,
            hardware=batch.hardware,
            requirement=batch.requirement,
            state="ended" if is_known else "waiting",
            ended_s=self._clock() if is_known else None,
        )
        for each in batch.known:
            ended = StoredResult(
                each.workload, each.hardware, each.trace, None, None, each.cache_key
            )
            place = task.workloads.index(each.workload)
            _add_result(say, batch_id, task_id, place, ended, self._clock(), is_cached=True)

    def known(self, cache_keys: Iterable[str]) -> dict[str, Row]:
        """Find the newest results of these keys that were measured."""
        found = {}
        with self._database.reading() as say:
            for key in cache_keys:
                row = say.row(
                    "SELECT hardware, trace FROM results WHERE cache_key = :key AND is_cached = 0"
                    " AND trace IS NOT NULL ORDER BY stored_s DESC LIMIT 1",
                    key=key,
                )
                if row is not None:
                    found[key] = row
        return found

    def task(self, task_id: str, tenant: str | None) -> Row:
        """Find a task of a tenant, with its results and what it waits for; None is whoever runs the service."""
        with self._database.reading() as say:
            row = _task(say, task_id)
            if tenant not in {None, row["tenant"]}:
                raise no_task(task_id)
            row["results"] = say.rows(
                "SELECT r.* FROM results r JOIN batches b ON b.id = r.batch WHERE r.task = :id"
                " ORDER BY b.hardware, r.place",
                id=task_id,
            )
            row["waiting"] = say.rows(
                "SELECT requirement, hardware FROM batches WHERE task = :id AND state = 'waiting'",
                id=task_id,
            )
            row["batches"] = say.value("SELECT count(*) FROM batches WHERE task = :id", id=task_id)
            return row

    def tasks(
        self,
        tenant: str | None,
        *,
        state: str | None,
        definition: str | None,
        before: int | None,
        limit: int,
    ) -> list[Row]:
        """List tasks, the newest first."""
        with self._database.reading() as say:
            return say.rows(
                "SELECT id, number, state, outcome, definition, solution, created_s, ended_s FROM tasks"
                " WHERE (CAST(:tenant AS TEXT) IS NULL OR tenant = :tenant)"
                " AND (CAST(:state AS TEXT) IS NULL OR state = :state)"
                " AND (CAST(:definition AS TEXT) IS NULL OR definition = :definition)"
                " AND (CAST(:before AS BIGINT) IS NULL OR number < :before) ORDER BY number DESC LIMIT :limit",
                tenant=tenant,
                state=state,
                definition=definition,
                before=before,
                limit=limit,
            )

    def events(self, task_id: str, tenant: str | None, after: int) -> tuple[list[Row], bool]:
        """Give a task's events after a number, and whether no more will come."""
        with self._database.reading() as say:
            row = _task(say, task_id)
            if tenant not in {None, row["tenant"]}:
                raise no_task(task_id)
            events = say.rows(
                "SELECT * FROM events WHERE task = :id AND number > :after ORDER BY number",
                id=task_id,
                after=after,
            )
            return events, row["state"] in ENDED

    def cancel(self, task_id: str, tenant: str | None) -> Row:
        """End a task, at whatever stage it is; one that has ended stays as it is."""
        now_s = self._clock()
        with self._database.transaction() as say:
            row = _task(say, task_id)
            if tenant not in {None, row["tenant"]}:
                raise no_task(task_id)
            if row["state"] not in ENDED:
                _stop_batches(say, task_id, now_s)
                self._end_task(say, task_id, "failed", "cancelled", "cancelled")
            return _task(say, task_id)

    # Workers

    def register(self, name: str, capability: Capability) -> str:
        """Take in a worker; what an earlier one of the same device held goes back."""
        worker_id, now_s = secrets.token_hex(16), self._clock()
        device = f"{name}/{capability.device}"
        with self._database.transaction() as say:
            say.change(
                "INSERT INTO devices (name) VALUES (:name) ON CONFLICT (name) DO NOTHING",
                name=device,
            )
            for batch in say.rows(
                "SELECT * FROM batches WHERE state = 'leased' AND device = :device", device=device
            ):
                self._give_back(
                    say, batch, f"the worker of {device} began anew", counts=batch["begun"]
                )
            say.change("DELETE FROM workers WHERE device = :device", device=device)
            say.change(
                "INSERT INTO workers VALUES (:id, :device, :capability, :now, NULL)",
                id=worker_id,
                device=device,
                capability=capability.to_json(),
                now=now_s,
            )
        return worker_id

    def leave(self, worker_id: str, reason: str, *, is_fault: bool) -> list[str]:
        """Let a worker go; give the tasks whose batches it held. A fault counts as a try."""
        now_s = self._clock()
        with self._database.transaction() as say:
            held = say.rows(
                "SELECT * FROM batches WHERE state = 'leased' AND worker = :worker",
                worker=worker_id,
            )
            for batch in held:
                self._give_back(say, batch, reason, counts=is_fault and batch["begun"])
            change = "seen_s = 0" if is_fault else "left_s = :now"
            say.change(
                f"UPDATE workers SET {change} WHERE id = :id AND left_s IS NULL",  # noqa: S608  # our own words
                id=worker_id,
                now=now_s,
            )
        return [batch["task"] for batch in held]

    def workers(self) -> list[Row]:
        """Give every worker that ever was here, with what is known of its device."""
        now_s = self._clock()
        with self._database.reading() as say:
            rows = say.rows(
                "SELECT w.*, d.strikes, d.quarantined FROM workers w JOIN devices d ON d.name = w.device"
                " ORDER BY w.device"
            )
        for row in rows:
            is_heard_of = row["seen_s"] > now_s - self.limits.forgotten_s
            row["is_there"] = row["left_s"] is None and is_heard_of
        return rows

    def take(self, worker_id: str, fits: Callable[[str, Capability], bool]) -> Leased | None:
        """Lease the next batch that a worker can do: of the tenant that waited longest since its last."""
        now_s = self._clock()
        with self._database.reading() as say:
            worker = _worker(say, worker_id)
            asked = say.rows("SELECT DISTINCT requirement FROM batches WHERE state = 'waiting'")
        capability = Capability.model_validate_json(worker["capability"])
        fitting = [row["requirement"] for row in asked if fits(row["requirement"], capability)]
        with self._database.transaction() as say:
            worker = _worker(say, worker_id)
            if worker["quarantined"]:
                raise RefusedError(
                    409,
                    f"{worker['device']} is quarantined: {worker['quarantined']}",
                    retry_after_s=30,
                )
            say.change("UPDATE workers SET seen_s = :now WHERE id = :id", id=worker_id, now=now_s)
            batch = self._next(say, fitting, worker["device"], now_s) if fitting else None
            return None if batch is None else self._lease(say, batch, worker, capability, now_s)

    def _next(
        self, say: Statements, requirements: Sequence[str], device: str, now_s: float
    ) -> Row | None:
        """Choose a batch; one that failed on this device goes to another, where there is one."""
        others = say.value(
            "SELECT count(*) FROM workers w JOIN devices d ON d.name = w.device WHERE w.device <> :device"
            " AND w.left_s IS NULL AND w.seen_s > :since AND d.quarantined IS NULL",
            device=device,
            since=now_s - self.limits.forgotten_s,
        )
        names = {f"r{index}": each for index, each in enumerate(requirements)}
        those = ", ".join(f":{name}" for name in names)
        return say.row(
            f"SELECT b.* FROM batches b JOIN tenants t ON t.name = b.tenant WHERE b.requirement IN ({those})"  # noqa: S608  # names of our own
            " AND b.state = 'waiting' AND (b.device IS NULL OR b.device <> :device OR :others = 0)"
            " ORDER BY t.served, b.number LIMIT 1",
            device=device,
            others=others,
            **names,
        )

    def _lease(
        self, say: Statements, batch: Row, worker: Row, capability: Capability, now_s: float
    ) -> Leased:
        lease = secrets.token_hex(16)
        say.change(
            "UPDATE batches SET state = 'leased', begun = 0, lease = :lease, worker = :worker, device = :device,"
            " leased_s = :now, expires_s = :expires WHERE id = :id",
            id=batch["id"],
            lease=lease,
            worker=worker["id"],
            device=worker["device"],
            now=now_s,
            expires=now_s + self.limits.lease_s,
        )
        say.change(
            "UPDATE tenants SET served = 1 + (SELECT max(served) FROM tenants) WHERE name = :name",
            name=batch["tenant"],
        )
        say.change("UPDATE tasks SET state = 'running' WHERE id = :id", id=batch["task"])
        self._note(
            say,
            batch["task"],
            "leased",
            hardware=capability.hardware,
            attempt=batch["tries"] + 1,
        )
        task = _task(say, batch["task"])
        ended = say.rows("SELECT workload FROM results WHERE batch = :id", id=batch["id"])
        done = {row["workload"] for row in ended}
        return Leased(
            lease,
            task["id"],
            batch["tries"] + 1,
            task["definition"],
            task["document"],
            tuple(each for each in json.loads(task["workloads"]) if each not in done),
        )

    # Leases

    def keep(self, lease: str, told: Sequence[tuple[str, Mapping[str, str]]]) -> str | None:
        """Prolong a lease, and note what its worker tells; give its task, or None where it no longer holds."""
        now_s = self._clock()
        with self._database.transaction() as say:
            batch = _held(say, lease, now_s)
            if batch is None:
                return None
            self._prolong(say, batch, now_s)
            if any(kind in _BEGINS for kind, _ in told):
                say.change("UPDATE batches SET begun = 1 WHERE id = :id", id=batch["id"])
            room = _MOST_TOLD - (_last_event(say, batch["task"]))
            for kind, data in told[: max(0, room)]:
                self._note(say, batch["task"], kind, **data)
        return str(batch["task"])

    def _prolong(self, say: Statements, batch: Row, now_s: float) -> None:
        say.change(
            "UPDATE batches SET expires_s = :expires WHERE id = :id",
            id=batch["id"],
            expires=now_s + self.limits.lease_s,
        )
        say.change("UPDATE workers SET seen_s = :now WHERE id = :id", id=batch["worker"], now=now_s)

    def leased(self, lease: str) -> tuple[Row, Row, Capability]:
        """Find a lease's batch, task and worker; refused where it no longer holds."""
        now_s = self._clock()
        with self._database.reading() as say:
            batch = _held(say, lease, now_s)
            if batch is None:
                raise _late()
            worker = _worker(say, batch["worker"])
            return (
                batch,
                _task(say, batch["task"]),
                Capability.model_validate_json(worker["capability"]),
            )

    def finish(self, lease: str, ended: StoredResult, summary: Mapping[str, Any]) -> str:
        """Store how a workload ended, once; refused where the lease no longer holds. Give the task."""
        now_s = self._clock()
        with self._database.transaction() as say:
            batch = _held(say, lease, now_s)
            if batch is None:
                raise _late()
            task = _task(say, batch["task"])
            workloads = json.loads(task["workloads"])
            place = workloads.index(ended.workload)
            if _add_result(say, batch["id"], task["id"], place, ended, now_s, is_cached=False):
                say.change("UPDATE batches SET tries = 0 WHERE id = :id", id=batch["id"])
                self._note(say, task["id"], "finished", **summary)
                say.change(
                    "UPDATE devices SET strikes = 0 WHERE name = :name", name=batch["device"]
                )
            self._prolong(say, batch, now_s)
            count = say.value("SELECT count(*) FROM results WHERE batch = :id", id=batch["id"])
            if count == len(workloads):
                _end_batch(say, batch, "ended", now_s)
                self._end_if_done(say, task["id"])
        return str(task["id"])

    def release(self, lease: str, reason: str, *, is_fault: bool) -> str | None:
        """Take a batch back; a fault counts against the device. Give the task, None where the lease is over."""
        now_s = self._clock()
        with self._database.transaction() as say:
            batch = _held(say, lease, now_s)
            if batch is None:
                return None
            if is_fault:
                _strike(say, batch["device"], reason)
            self._give_back(say, batch, reason, counts=is_fault)
        return str(batch["task"])

    def sweep(self) -> list[str]:
        """Take back what no heartbeat came for; give the tasks."""
        now_s = self._clock()
        with self._database.reading() as say:
            is_due = say.value(
                "SELECT count(*) FROM batches WHERE state = 'leased' AND expires_s <= :now",
                now=now_s,
            )
        if not is_due:
            return []
        with self._database.transaction() as say:
            late = say.rows(
                "SELECT * FROM batches WHERE state = 'leased' AND expires_s <= :now", now=now_s
            )
            for batch in late:
                reason = (
                    f"no heartbeat of {batch['device']} came for {self.limits.lease_s:g} seconds"
                )
                _strike(say, batch["device"], reason)
                self._give_back(say, batch, reason, counts=batch["begun"])
        return [batch["task"] for batch in late]

    def begin_anew(self) -> None:
        """Give leases their whole time, as nobody could answer; those of workers that ended with the server end."""
        with self._database.transaction() as say:
            for batch in say.rows(
                "SELECT * FROM batches WHERE state = 'leased' AND device LIKE :own",
                own=f"{OWN}/%",
            ):
                self._give_back(say, batch, "the server began anew", counts=False)
            say.change(
                "UPDATE batches SET expires_s = :expires WHERE state = 'leased'",
                expires=self._clock() + self.limits.lease_s,
            )

    def forgive(self, device: str) -> bool:
        """End a quarantine; tell whether there is such a device."""
        with self._database.transaction() as say:
            changed = say.change(
                "UPDATE devices SET strikes = 0, quarantined = NULL WHERE name = :name", name=device
            )
        return bool(changed)

    # What is looked at

    def counts(self) -> dict[str, Any]:
        """Count what waits, what is worked at and how tasks ended; the age of the oldest in seconds."""
        with self._database.reading() as say:
            oldest_s = say.value(
                "SELECT min(t.created_s) FROM batches b JOIN tasks t ON t.id = b.task"
                " WHERE b.state = 'waiting'"
            )
            return {
                "waiting": say.rows(
                    "SELECT coalesce(hardware, 'any') AS hardware, count(*) AS count FROM batches"
                    " WHERE state = 'waiting' GROUP BY coalesce(hardware, 'any')"
                ),
                "leased": say.value("SELECT count(*) FROM batches WHERE state = 'leased'"),
                "outcomes": say.rows(
                    "SELECT outcome, count(*) AS count FROM tasks WHERE outcome IS NOT NULL"
                    " GROUP BY outcome"
                ),
                "device_s": say.value("SELECT sum(device_s) FROM batches") or 0.0,
                "oldest_s": 0.0 if oldest_s is None else max(0.0, self._clock() - oldest_s),
            }

    def waiting_count(self) -> int:
        """Count what waits."""
        with self._database.reading() as say:
            return int(say.value("SELECT count(*) FROM batches WHERE state = 'waiting'"))

    def leased_count(self) -> int:
        """Count what is worked at."""
        with self._database.reading() as say:
            return int(say.value("SELECT count(*) FROM batches WHERE state = 'leased'"))

    def asked_by(self, requirement: str) -> Row | None:
        """Find a batch with a requirement, with its task's solution."""
        with self._database.reading() as say:
            return say.row(
                "SELECT b.hardware, t.document, t.definition FROM batches b JOIN tasks t ON t.id = b.task"
                " WHERE b.requirement = :requirement LIMIT 1",
                requirement=requirement,
            )

    def measured_by(self, tenant: str) -> Iterator[Row]:
        """Give traces that were measured for a tenant, with their tasks' solutions, some tasks at a time."""
        after = 0
        while True:
            with self._database.reading() as say:
                last = say.value(
                    "SELECT max(number) FROM (SELECT number FROM tasks WHERE tenant = :tenant AND number > :after"
                    " ORDER BY number LIMIT 200) AS some",
                    tenant=tenant,
                    after=after,
                )
                if last is None:
                    return
                found = say.rows(
                    "SELECT t.definition, t.solution, t.document, r.trace FROM results r JOIN tasks t ON t.id = r.task"
                    " WHERE t.tenant = :tenant AND t.number > :after AND t.number <= :last AND r.trace IS NOT NULL"
                    " AND r.is_cached = 0 ORDER BY t.number, r.stored_s, r.place",
                    tenant=tenant,
                    after=after,
                    last=last,
                )
            yield from found
            after = last

    def unrecorded(self) -> list[Row]:
        """Give results that are in no dataset yet."""
        with self._database.reading() as say:
            return say.rows(
                "SELECT r.batch, r.workload, r.trace, r.samples, t.document, t.definition, s.author"
                " FROM results r JOIN tasks t ON t.id = r.task JOIN solutions s ON s.name = t.solution"
                " WHERE r.is_recorded = 0 ORDER BY r.stored_s, r.place"
            )

    def note_recorded(self, batch: str, workload: str) -> None:
        """Note that a result is in the dataset; its samples need not be kept twice."""
        with self._database.transaction() as say:
            say.change(
                "UPDATE results SET is_recorded = 1, samples = NULL WHERE batch = :batch AND workload = :workload",
                batch=batch,
                workload=workload,
            )

    # Endings

    def _give_back(self, say: Statements, batch: Row, reason: str, *, counts: bool) -> None:
        """Let a batch wait again, or fail once it was tried often enough."""
        now_s = self._clock()
        tries = batch["tries"] + bool(counts)
        is_last = tries >= MOST_TRIES
        _end_batch(say, batch, "failed" if is_last else "waiting", now_s)
        say.change("UPDATE batches SET tries = :tries WHERE id = :id", id=batch["id"], tries=tries)
        if is_last:
            self._note(say, batch["task"], "given_up", reason=reason)
            self._end_if_done(say, batch["task"], reason)
            return
        still = say.value(
            "SELECT count(*) FROM batches WHERE task = :id AND state = 'leased'", id=batch["task"]
        )
        if not still:
            say.change("UPDATE tasks SET state = 'pending' WHERE id = :id", id=batch["task"])
        self._note(say, batch["task"], "requeued", reason=reason)

    def _end_if_done(self, say: Statements, task_id: str, reason: str = "") -> None:
        states = {
            row["state"]
            for row in say.rows("SELECT DISTINCT state FROM batches WHERE task = :id", id=task_id)
        }
        if states & {"waiting", "leased"}:
            return
        if "failed" in states:
            error = f"the machine is at fault, not the solution; {count_text(MOST_TRIES, 'attempt')}: {reason}"
            self._end_task(say, task_id, "failed", "infra_failed", error)
            return
        ended = say.rows("SELECT trace, reason FROM results WHERE task = :id", id=task_id)
        if any(row["trace"] is not None for row in ended):
            self._end_task(say, task_id, "completed", "evaluated", None)
            return
        reasons = "; ".join(dict.fromkeys(row["reason"] or "" for row in ended))
        self._end_task(say, task_id, "failed", "not_evaluated", f"nothing ran: {reasons}")

    def _end_task(
        self, say: Statements, task_id: str, state: str, outcome: str, error: str | None
    ) -> None:
        say.change(
            "UPDATE tasks SET state = :state, outcome = :outcome, error = :error, ended_s = :now WHERE id = :id",
            id=task_id,
            state=state,
            outcome=outcome,
            error=error,
            now=self._clock(),
        )
        self._note(
            say, task_id, state, outcome=outcome, **({} if error is None else {"error": error})
        )

    def _note(self, say: Statements, task_id: str, kind: str, **data: Any) -> None:
        say.change(
            "INSERT INTO events VALUES (:task, :number, :now, :kind, :data)",
            task=task_id,
            number=_last_event(say, task_id) + 1,
            now=self._clock(),
            kind=kind,
            data=json.dumps(data),
        )


def _task(say: Statements, task_id: str) -> Row:
    row = say.row("SELECT * FROM tasks WHERE id = :id", id=task_id)
    if row is None:
        raise no_task(task_id)
    return row


def _worker(say: Statements, worker_id: str) -> Row:
    row = say.row(
        "SELECT w.*, d.quarantined FROM workers w JOIN devices d ON d.name = w.device"
        " WHERE w.id = :id AND w.left_s IS NULL",
        id=worker_id,
    )
    if row is None:
        raise RefusedError(404, "no such worker, or another took its place; register again")
    return row


def _held(say: Statements, lease: str, now_s: float) -> Row | None:
    return say.row(
        "SELECT * FROM batches WHERE lease = :lease AND state = 'leased' AND expires_s > :now",
        lease=lease,
        now=now_s,
    )


def _late() -> RefusedError:
    return RefusedError(
        409, "this lease is over: its task was cancelled, or its batch went to another"
    )


def _last_event(say: Statements, task_id: str) -> int:
    return say.value("SELECT max(number) FROM events WHERE task = :id", id=task_id) or 0


def _with_same_key(say: Statements, task: NewTask) -> Row | None:
    if task.idempotency_key is None:
        return None
    found = say.row(
        "SELECT * FROM tasks WHERE tenant = :tenant AND idempotency_key = :key",
        tenant=task.tenant,
        key=task.idempotency_key,
    )
    if found is not None and found["request_hash"] != task.request_hash:
        raise RefusedError(409, "this Idempotency-Key came with another body; use a new one")
    return found


def _require_within_quotas(say: Statements, tenant: Row, now_s: float) -> None:
    waiting = say.value(
        "SELECT count(*) FROM tasks WHERE tenant = :name AND state IN ('pending', 'running')",
        name=tenant["name"],
    )
    if waiting >= tenant["most_queued"]:
        raise RefusedError(
            429,
            f"{count_text(waiting, 'task')} of yours wait already, which is your quota",
            retry_after_s=30,
        )
    lately = say.value(
        "SELECT count(*) FROM tasks WHERE tenant = :name AND created_s > :since",
        name=tenant["name"],
        since=now_s - _MINUTE_S,
    )
    if lately >= tenant["most_per_minute"]:
        raise RefusedError(
            429,
            f"{count_text(lately, 'task')} came from you within a minute, which is your quota",
            retry_after_s=int(_MINUTE_S),
        )
    used_s = say.value(
        "SELECT coalesce(sum(device_s), 0) FROM batches WHERE tenant = :name AND ended_s > :since",
        name=tenant["name"],
        since=now_s - _DAY_S,
    )
    if used_s >= tenant["device_seconds_per_day"]:
        raise RefusedError(
            429, f"you used {used_s:.0f} s of devices within a day, your quota", retry_after_s=3600
        )


def _named(say: Statements, task: NewTask) -> tuple[str, str]:
    """Choose the name under which a solution is recorded: one name is one code."""
    for name, document in zip(task.names, task.documents, strict=True):
        say.change(
            "INSERT INTO solutions VALUES (:name, :hash, :author) ON CONFLICT (name) DO NOTHING",
            name=name,
            hash=task.solution_hash,
            author=task.author,
        )
        owner = say.value("SELECT hash FROM solutions WHERE name = :name", name=name)
        if owner == task.solution_hash:
            return name, document
    raise RefusedError(409, f"two solutions are called {task.names[1]!r}; choose another name")


def _add_result(  # noqa: PLR0917  # a row
    say: Statements,
    batch_id: str,
    task_id: str,
    place: int,
    ended: StoredResult,
    now_s: float,
    *,
    is_cached: bool,
) -> bool:
    """Store a result unless there is one; tell whether there was none."""
    return bool(
        say.change(
            "INSERT INTO results VALUES (:batch, :workload, :task, :place, :hardware, :trace, :reason, :samples,"
            " :cache_key, :cached, :recorded, :now) ON CONFLICT (batch, workload) DO NOTHING",
            batch=batch_id,
            workload=ended.workload,
            task=task_id,
            place=place,
            hardware=ended.hardware,
            trace=ended.trace,
            reason=ended.reason,
            samples=ended.samples,
            cache_key=ended.cache_key,
            cached=int(is_cached),
            recorded=int(is_cached or ended.trace is None),
            now=now_s,
        )
    )


def _end_batch(say: Statements, batch: Row, state: str, now_s: float) -> None:
    """End a lease; what it took of the device counts for its tenant."""
    took_s = max(0.0, now_s - (batch["leased_s"] or now_s))
    say.change(
        "UPDATE batches SET state = :state, expires_s = NULL, device_s = device_s + :took, ended_s = :now"
        " WHERE id = :id",
        id=batch["id"],
        state=state,
        took=took_s,
        now=now_s,
    )


def _stop_batches(say: Statements, task_id: str, now_s: float) -> None:
    for batch in say.rows(
        "SELECT * FROM batches WHERE task = :id AND state IN ('waiting', 'leased')", id=task_id
    ):
        is_leased = batch["state"] == "leased"
        _end_batch(say, batch if is_leased else {**batch, "leased_s": None}, "cancelled", now_s)


def _strike(say: Statements, device: str, reason: str) -> None:
    """Count a fault against a device; after three in a row it gets no more work."""
    say.change("UPDATE devices SET strikes = strikes + 1 WHERE name = :name", name=device)
    say.change(
        "UPDATE devices SET quarantined = :reason WHERE name = :name AND strikes >= :most"
        " AND quarantined IS NULL",
        name=device,
        reason=f"it failed {_MOST_STRIKES} times in a row, the last time: {reason}",
        most=_MOST_STRIKES,
    )
