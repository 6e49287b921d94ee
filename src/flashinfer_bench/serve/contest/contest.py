"""A contest on a service: who may enter what, what a team is told, and how it ends."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashinfer_bench.data import Trace
from flashinfer_bench.serve import messages as service_messages
from flashinfer_bench.serve.contest import messages, ranking
from flashinfer_bench.serve.contest.rules import ORGANISER
from flashinfer_bench.serve.refusals import RefusedError, shortened
from flashinfer_bench.serve.states import ENDED
from flashinfer_bench.serve.tokens import Requester
from flashinfer_bench.text.numbers import count_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from flashinfer_bench.data import Definition
    from flashinfer_bench.serve.contest.rules import Rules
    from flashinfer_bench.serve.database import Row
    from flashinfer_bench.serve.service import Service

_EVERY = 2**31
_MOST_TRIES = 3
_NO_FAULT = ("infra_failed", "cancelled")
"""Outcomes that say nothing of a solution."""
_AS_ORGANISER = Requester(ORGANISER, frozenset({"submit"}))


@dataclass(frozen=True, slots=True)
class _Ended:
    """A task that has ended, which changes no more."""

    outcome: str
    evaluated: ranking.Evaluated
    statuses: Counter[str]
    trace_ids: tuple[str, ...]


class Contest:
    """What teams and organisers may do; any thread may call it."""

    def __init__(
        self, rules: Rules, service: Service, *, clock: Callable[[], float] = time.time
    ) -> None:
        self.rules = rules
        self.service = service
        self._clock = clock
        self._lock = threading.Lock()
        self._ended: dict[str, _Ended] = {}

    # Teams

    def state(self, caller: Requester) -> messages.ContestState:
        """Say what the contest is."""
        kinds = {worker.kind for worker in self.service.health().workers}
        return messages.ContestState(
            name=self.rules.name,
            definitions=list(self.service.trace_set.definitions),
            kinds=sorted(kinds) or ["cpu"],
            deadline=self.rules.deadline,
            is_open=self._why_closed() is None,
            most_entries=self.rules.most_entries,
            entries_left=max(0, self.rules.most_entries - self._entries_counted(caller.tenant)),
            key=self.rules.key,
        )

    def definition(self, name: str) -> Definition:
        """Find a definition."""
        return self.service.definition(name)

    def enter(
        self, given: messages.NewEntry, caller: Requester, idempotency_key: str | None
    ) -> messages.EntryState:
        """Take an entry in; it is on disk when this returns."""
        if caller.tenant not in self.rules.teams:
            raise RefusedError(403, f"{caller.tenant!r} is no team of this contest")
        submission = service_messages.Submission(
            solution=given.solution, hardware=self.rules.hardware
        )
        with (
            self._lock
        ):  # one after the other: the contest ends for all at once, and nobody has one entry more
            closed = self._why_closed()
            if closed is not None:
                raise RefusedError(403, closed)
            known = self.service.queue.by_key(caller.tenant)
            most = self.rules.most_entries
            if idempotency_key not in known and self._entries_counted(caller.tenant) >= most:
                raise RefusedError(429, f"you entered {most} solutions, and may enter no more")
            task = self.service.submit(submission, caller, idempotency_key).task_id
        return self.entry(task, caller)

    def entry(self, entry: str, caller: Requester) -> messages.EntryState:
        """Say how far an entry is, to its team."""
        return self._told(self.service.queue.task(entry, caller.sees), self._reviews())

    def entries(self, caller: Requester) -> messages.EntryList:
        """List a team's entries."""
        reviews = self._reviews()
        told = [self._told(row, reviews) for row in self._tasks_of({caller.tenant})]
        return messages.EntryList(entries=told[::-1])

    def _told(self, row: Row, reviews: Mapping[str, messages.Review]) -> messages.EntryState:
        """Say of a task what its team may know: no workload, no seed, nothing that the solution printed."""
        state = messages.EntryState(
            entry=row["id"],
            definition=row["definition"],
            solution=row["solution"],
            status="ended" if row["state"] in ENDED else row["state"],
            review=reviews.get(row["id"], messages.Review()),
        )
        if row["state"] not in ENDED:
            return state
        ended = self._look(row["id"])
        score, statuses = ended.evaluated.score, dict(sorted(ended.statuses.items()))
        failed = "failed" if statuses and ended.outcome == "evaluated" else "not_evaluated"
        outcome = {
            "outcome": failed if score is None else "passed",
            "statuses": statuses,
            "score": None if score is None else ranking.rounded(score),
            "log": _log(ended.outcome, statuses),
        }
        return state.model_copy(update=outcome)

    def board(self, caller: Requester) -> messages.ContestBoard:
        """Say how teams stand; entries are named to organisers only."""
        found = self._board(self._ranked_entries())
        if caller.may("admin"):
            return found
        without = [
            each.model_copy(
                update={"ranked": [one.model_copy(update={"entry": None}) for one in each.ranked]}
            )
            for each in found.definitions
        ]
        return found.model_copy(update={"definitions": without})

    # Organisers

    def review(self, given: messages.NewReview) -> messages.Review:
        """Accept or reject an entry."""
        row = self.service.queue.task(given.entry, None)
        if row["tenant"] not in self.rules.teams:
            raise RefusedError(404, f"no entry {shortened(given.entry)!r}")
        if given.state == "rejected" and not given.reason.strip():
            raise RefusedError(422, "say why it is rejected")
        with self.service.database.transaction() as say:
            say.change("DELETE FROM reviews WHERE task = :task", task=given.entry)
            say.change(
                "INSERT INTO reviews VALUES (:task, :state, :reason, :now)",
                task=given.entry,
                state=given.state,
                reason=given.reason,
                now=self._clock(),
            )
        return messages.Review(state=given.state, reason=given.reason)

    def close(self) -> messages.Closing:
        """Take no more entries; once all have ended, evaluate leaders again. To be asked until it is closed."""
        with self._lock, self.service.database.transaction() as say:
            if not say.value("SELECT count(*) FROM closings"):
                say.change("INSERT INTO closings VALUES (:now)", now=self._clock())
        unfinished = [row for row in self._tasks_of(self.rules.teams) if row["state"] not in ENDED]
        if unfinished:
            return messages.Closing(is_closed=False, waiting_for=len(unfinished))
        secret = self._secret()
        waiting = 0
        for leader in ranking.leaders(self._ranked_entries(), self.rules):
            for run in range(self.rules.reruns):
                row = secret.of(leader.entry, run)
                if row is None:
                    key = secret.next_key(leader.entry, run)
                    task = self.service.evaluate_again(leader.entry, _AS_ORGANISER, key)
                    row = self.service.queue.task(task, None)
                waiting += row["state"] not in ENDED
        return messages.Closing(is_closed=waiting == 0, waiting_for=waiting)

    def results(self) -> messages.Results:
        """Give all that the ranking follows from; refused before the contest is closed."""
        if self._closed_s() is None or not self.close().is_closed:
            raise RefusedError(409, "the contest is not closed yet: `contest close` closes it")
        entries, secret = self._ranked_entries(), self._secret()
        records = []
        for each in entries:
            again = [secret.of(each.entry, run) for run in range(self.rules.reruns)]
            records.append(
                messages.EntryRecord(
                    entry=each.entry,
                    team=each.team,
                    definition=each.definition,
                    solution=each.solution,
                    results=each.first.results,
                    traces=list(self._look(each.entry).trace_ids),
                    again=[
                        list(self._look(row["id"]).trace_ids) for row in again if row is not None
                    ],
                    review=each.review,
                )
            )
        return messages.Results(rules=self.rules, entries=records, board=self._board(entries))

    # What is known

    def _board(self, entries: list[ranking.RankedEntry]) -> messages.ContestBoard:
        secret = self._secret()
        is_final = self._closed_s() is not None and all(
            (row := secret.of(each.entry, run)) is not None and row["state"] in ENDED
            for each in ranking.leaders(entries, self.rules)
            for run in range(self.rules.reruns)
        )
        definitions = self.service.trace_set.definitions
        return ranking.board(entries, self.rules, definitions, is_final=is_final)

    def _why_closed(self) -> str | None:
        if self._closed_s() is not None:
            return "the contest is closed"
        if self.rules.is_over(self._clock()):
            return f"the deadline was {self.rules.deadline}"
        return None

    def _closed_s(self) -> float | None:
        with self.service.database.reading() as say:
            found: float | None = say.value("SELECT closed_s FROM closings")
        return found

    def _reviews(self) -> dict[str, messages.Review]:
        with self.service.database.reading() as say:
            rows = say.rows("SELECT task, state, reason FROM reviews")
        return {
            row["task"]: messages.Review(state=row["state"], reason=row["reason"]) for row in rows
        }

    def _tasks_of(self, tenants: Iterable[str]) -> list[Row]:
        """Give the tasks of teams, the earliest first."""
        found = []
        for tenant in tenants:
            rows = self.service.queue.tasks(
                tenant, state=None, definition=None, before=None, limit=_EVERY
            )
            found += [{**row, "tenant": tenant} for row in rows]
        return sorted(found, key=lambda row: row["number"])

    def _entries_counted(self, team: str) -> int:
        return sum(row["outcome"] not in _NO_FAULT for row in self._tasks_of({team}))

    def _ranked_entries(self) -> list[ranking.RankedEntry]:
        """Give all entries that have ended, the earliest first."""
        reviews, secret = self._reviews(), self._secret()
        entries = []
        for row in self._tasks_of(self.rules.teams):
            if row["state"] not in ENDED or row["outcome"] in _NO_FAULT:
                continue
            runs = (secret.of(row["id"], run) for run in range(self.rules.reruns))
            entries.append(
                ranking.RankedEntry(
                    entry=row["id"],
                    team=row["tenant"],
                    definition=row["definition"],
                    solution=row["solution"],
                    first=self._look(row["id"]).evaluated,
                    again=tuple(
                        self._look(run["id"]).evaluated
                        for run in runs
                        if run is not None and run["state"] in ENDED
                    ),
                    review=reviews.get(row["id"], messages.Review()),
                )
            )
        return entries

    def _look(self, task: str) -> _Ended:
        """Look at a task that has ended; its traces are read once."""
        known = self._ended.get(task)
        if known is None:
            row = self.service.queue.task(task, None)
            traces = [
                Trace.model_validate_json(each["trace"])
                for each in row["results"]
                if each["trace"] is not None
            ]
            count = len(json.loads(row["workloads"])) * row["batches"]
            known = self._ended[task] = _Ended(
                row["outcome"],
                ranking.evaluated(traces, count),
                Counter(map(_status, traces)),
                tuple(map(_trace_id, traces)),
            )
        return known

    def _secret(self) -> _SecretTasks:
        return _SecretTasks(self.service.queue.by_key(ORGANISER))


class _SecretTasks:
    """The tasks that evaluate leaders again, of which teams do not hear; those that machines failed at do not count."""

    def __init__(self, by_key: Mapping[str, Row]) -> None:
        self._by_key = by_key

    def of(self, entry: str, run: int) -> Row | None:
        """Find the task of a run; None where there is none yet, and one may be tried."""
        row = None
        for attempt in range(_MOST_TRIES):
            row = self._by_key.get(_key(entry, run, attempt))
            if row is None or row["outcome"] not in _NO_FAULT:
                break
        return row

    def next_key(self, entry: str, run: int) -> str:
        """Give the key of the next try."""
        keys = (_key(entry, run, attempt) for attempt in range(_MOST_TRIES))
        return next(key for key in keys if key not in self._by_key)


def _key(entry: str, run: int, attempt: int) -> str:
    return f"again {entry} {run} {attempt}"


def _log(outcome: str, statuses: Mapping[str, int]) -> list[str]:
    if outcome == "infra_failed":
        return ["the machines are at fault, not the solution: enter it again"]
    if outcome == "cancelled":
        return ["the organiser ended it"]
    if not statuses:
        return ["no machine of this contest can run it"]
    total = sum(statuses.values())
    return [
        f"{status}: {count} of {count_text(total, 'workload')}; what it printed is withheld"
        for status, count in sorted(statuses.items())
        if status != "PASSED"
    ]


def _status(trace: Trace) -> str:
    assert trace.evaluation is not None
    return trace.evaluation.status.value


def _trace_id(trace: Trace) -> str:
    assert trace.evaluation is not None
    assert trace.evaluation.provenance is not None
    return trace.evaluation.provenance.trace_id
