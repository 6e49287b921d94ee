"""How a batch and a task end, and the events that say what happens: what all parts of the queue share."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from flashinfer_bench.serve.refusals import no_task
from flashinfer_bench.text.numbers import count_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from flashinfer_bench.serve.database import Database, Row, Statements
    from flashinfer_bench.serve.queued import QueueLimits, StoredResult

MOST_TRIES = 3
"""In a row, without a result: then the machines are at fault."""


class QueuePart:
    """What a part of the queue works with."""

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

    def _give_back(self, say: Statements, batch: Row, reason: str, *, counts: bool) -> None:
        """Let a batch wait again, or fail once it was tried often enough."""
        now_s = self._clock()
        tries = batch["tries"] + bool(counts)
        is_last = tries >= MOST_TRIES
        end_batch(say, batch, "failed" if is_last else "waiting", now_s)
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
            number=last_event(say, task_id) + 1,
            now=self._clock(),
            kind=kind,
            data=json.dumps(data),
        )


def task_row(say: Statements, task_id: str) -> Row:
    """Find a task; refused where there is none."""
    row = say.row("SELECT * FROM tasks WHERE id = :id", id=task_id)
    if row is None:
        raise no_task(task_id)
    return row


def last_event(say: Statements, task_id: str) -> int:
    """Give the number of a task's last event."""
    return say.value("SELECT max(number) FROM events WHERE task = :id", id=task_id) or 0


def add_result(  # noqa: PLR0917  # a row
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
            " :cache_key, :cached, :recorded, :now, :signature) ON CONFLICT (batch, workload) DO NOTHING",
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
            signature=ended.signature,
        )
    )


def end_batch(say: Statements, batch: Row, state: str, now_s: float) -> None:
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
