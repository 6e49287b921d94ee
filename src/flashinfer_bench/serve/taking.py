"""Tasks as they come: within quotas, under a name of their own, with what is known already."""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING

from flashinfer_bench.serve.endings import QueuePart, add_result, end_batch, task_row
from flashinfer_bench.serve.queued import StoredResult
from flashinfer_bench.serve.refusals import RefusedError, no_task
from flashinfer_bench.serve.states import ENDED
from flashinfer_bench.text.numbers import count_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from flashinfer_bench.serve.database import Row, Statements
    from flashinfer_bench.serve.queued import NewBatch, NewTask

_DAY_S = 86_400.0
_MINUTE_S = 60.0


class Tasks(QueuePart):
    """Takes tasks in, finds what is known, and cancels."""

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
            return task_row(say, task_id)

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
            add_result(say, batch_id, task_id, place, ended, self._clock(), is_cached=True)

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

    def cancel(self, task_id: str, tenant: str | None) -> Row:
        """End a task, at whatever stage it is; one that has ended stays as it is."""
        now_s = self._clock()
        with self._database.transaction() as say:
            row = task_row(say, task_id)
            if tenant not in {None, row["tenant"]}:
                raise no_task(task_id)
            if row["state"] not in ENDED:
                _stop_batches(say, task_id, now_s)
                self._end_task(say, task_id, "failed", "cancelled", "cancelled")
            return task_row(say, task_id)


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


def _stop_batches(say: Statements, task_id: str, now_s: float) -> None:
    for batch in say.rows(
        "SELECT * FROM batches WHERE task = :id AND state IN ('waiting', 'leased')", id=task_id
    ):
        is_leased = batch["state"] == "leased"
        end_batch(say, batch if is_leased else {**batch, "leased_s": None}, "cancelled", now_s)
