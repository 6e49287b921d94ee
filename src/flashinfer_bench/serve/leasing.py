"""Workers and their leases: who gets which batch, what it hands in, and what becomes of a batch nobody keeps.

A lease is a batch in a worker's hands, and ends with its last result, with a release, or when no heartbeat came in
time: a result that comes later is refused.
"""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING, Any

from flashinfer_bench.serve.capabilities import device_name
from flashinfer_bench.serve.endings import QueuePart, add_result, end_batch, last_event, task_row
from flashinfer_bench.serve.messages import Capability
from flashinfer_bench.serve.queued import Leased
from flashinfer_bench.serve.refusals import RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from flashinfer_bench.serve.database import Row, Statements
    from flashinfer_bench.serve.queued import StoredResult

OWN = "server"
"""What a server calls the workers that it starts itself."""
_MOST_STRIKES = 3
_MOST_TOLD = 2_000
"""Events of a task that workers tell; what the server itself says always has room."""
_BEGINS = ("building", "started")
"""What a worker tells once it touches a solution: only then its death may be that solution's doing."""


class Leases(QueuePart):
    """Takes workers in, gives them batches, and takes back what is not kept."""

    def register(self, name: str, capability: Capability, key: str) -> str:
        """Take in a worker; what an earlier one of the same device held goes back."""
        worker_id, now_s = secrets.token_hex(16), self._clock()
        device = device_name(name, capability.device)
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
                "INSERT INTO workers VALUES (:id, :device, :capability, :now, NULL, :key)",
                id=worker_id,
                device=device,
                capability=capability.to_json(),
                now=now_s,
                key=key,
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

    def forgive(self, device: str) -> bool:
        """End a quarantine; tell whether there is such a device."""
        with self._database.transaction() as say:
            changed = say.change(
                "UPDATE devices SET strikes = 0, quarantined = NULL WHERE name = :name", name=device
            )
        return bool(changed)

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
        task = task_row(say, batch["task"])
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
            room = _MOST_TOLD - (last_event(say, batch["task"]))
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

    def leased(self, lease: str) -> tuple[Row, Row]:
        """Find a lease's task and worker; refused where it no longer holds."""
        now_s = self._clock()
        with self._database.reading() as say:
            batch = _held(say, lease, now_s)
            if batch is None:
                raise _late()
            return task_row(say, batch["task"]), _worker(say, batch["worker"])

    def finish(self, lease: str, ended: StoredResult, summary: Mapping[str, Any]) -> str:
        """Store how a workload ended, once; refused where the lease no longer holds. Give the task."""
        now_s = self._clock()
        with self._database.transaction() as say:
            batch = _held(say, lease, now_s)
            if batch is None:
                raise _late()
            task = task_row(say, batch["task"])
            workloads = json.loads(task["workloads"])
            place = workloads.index(ended.workload)
            if add_result(say, batch["id"], task["id"], place, ended, now_s, is_cached=False):
                say.change("UPDATE batches SET tries = 0 WHERE id = :id", id=batch["id"])
                self._note(say, task["id"], "finished", **summary)
                say.change(
                    "UPDATE devices SET strikes = 0 WHERE name = :name", name=batch["device"]
                )
            self._prolong(say, batch, now_s)
            count = say.value("SELECT count(*) FROM results WHERE batch = :id", id=batch["id"])
            if count == len(workloads):
                end_batch(say, batch, "ended", now_s)
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
