"""The queue: tasks, batches, leases and results in the store; every change of state is one transaction.

A task is one solution; a batch of it is what one device does. How tasks come in is in `taking`, who works at them in
`leasing`, how they end in `endings`; here is what is looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flashinfer_bench.serve.endings import task_row
from flashinfer_bench.serve.leasing import Leases
from flashinfer_bench.serve.refusals import no_task
from flashinfer_bench.serve.states import ENDED
from flashinfer_bench.serve.taking import Tasks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flashinfer_bench.serve.database import Row


class Queue(Tasks, Leases):
    """What is to be done, by whom, and what became of it."""

    def task(self, task_id: str, tenant: str | None) -> Row:
        """Find a task of a tenant, with its results and what it waits for; None is whoever runs the service."""
        with self._database.reading() as say:
            row = task_row(say, task_id)
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

    def by_key(self, tenant: str) -> dict[str, Row]:
        """Give a tenant's tasks that came with a key, by that."""
        with self._database.reading() as say:
            rows = say.rows(
                "SELECT idempotency_key, id, state, outcome FROM tasks"
                " WHERE tenant = :tenant AND idempotency_key IS NOT NULL",
                tenant=tenant,
            )
        return {row["idempotency_key"]: row for row in rows}

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
            row = task_row(say, task_id)
            if tenant not in {None, row["tenant"]}:
                raise no_task(task_id)
            events = say.rows(
                "SELECT * FROM events WHERE task = :id AND number > :after ORDER BY number",
                id=task_id,
                after=after,
            )
            return events, row["state"] in ENDED

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
                "SELECT r.batch, r.task, r.workload, r.trace, r.samples, r.signature, t.document, t.definition,"
                " s.author FROM results r JOIN tasks t ON t.id = r.task JOIN solutions s ON s.name = t.solution"
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
