"""The service: a dataset, a queue and who waits; what every route and every worker calls.

One long file: each verb is a few lines, and tells those who wait for what it changed.
"""

from __future__ import annotations

import functools
import hashlib
import json
import logging
import secrets
import threading
from typing import TYPE_CHECKING, Any

from flashinfer_bench.data import Solution, Trace, layout
from flashinfer_bench.data.wording import axes_text, did_you_mean
from flashinfer_bench.serve import messages
from flashinfer_bench.serve.capabilities import (
    require_version,
    why_not,
)
from flashinfer_bench.serve.changes import Changes
from flashinfer_bench.serve.leasing import OWN
from flashinfer_bench.serve.messages import Capability
from flashinfer_bench.serve.placing import Places
from flashinfer_bench.serve.queue import Queue
from flashinfer_bench.serve.queued import NewTask, QueueLimits, StoredResult
from flashinfer_bench.serve.recorder import DatasetRecorder
from flashinfer_bench.serve.refusals import RefusedError, shortened
from flashinfer_bench.serve.signing import SignedTrace, samples_digest
from flashinfer_bench.serve.states import ENDED
from flashinfer_bench.serve.tokens import LOCAL, Tokens

if TYPE_CHECKING:
    from collections.abc import Callable

    from flashinfer_bench.bench.config import BenchmarkConfig
    from flashinfer_bench.data import Definition, TraceSet, Workload
    from flashinfer_bench.serve.database import Database, Row
    from flashinfer_bench.serve.tokens import Requester

_log = logging.getLogger(__name__)
_SWEEP_S = 1.0
_MOST_NAME_BYTES = 200
"""The file's name has a hash and a suffix, too; 255 is what a folder takes."""
_KNOWN_REQUIREMENTS = 1024


class Service:
    """Takes submissions, hands batches to workers, keeps what became of them. Any thread may call it."""

    def __init__(
        self,
        trace_set: TraceSet,
        config: BenchmarkConfig,
        database: Database,
        limits: QueueLimits | None = None,
    ) -> None:
        self.trace_set = trace_set
        self.config = config
        self.tokens = Tokens(database)
        self.queue = Queue(database, limits or QueueLimits())
        self.changes = Changes()
        self.worker_token = secrets.token_urlsafe(32)
        """Of workers that this server starts itself."""
        self.is_draining = False
        """Whether nothing new is taken and no more leases are given."""
        self.database = database
        self._recorder = DatasetRecorder(self.queue, trace_set)
        self._recorder.catch_up(after_a_crash=True)
        self.queue.begin_anew()
        self._places = Places(self.queue, trace_set, config)
        self._asked_by = functools.lru_cache(_KNOWN_REQUIREMENTS)(self._look_up)
        self._is_over = threading.Event()
        self._sweeper = threading.Thread(target=self._sweep, name="serve-sweep", daemon=True)
        self._sweeper.start()

    def close(self) -> None:
        """End; what is unfinished is on disk, and goes on with the next server."""
        self._is_over.set()
        self.changes.end()
        self._sweeper.join()
        self.database.close()

    def _sweep(self) -> None:
        while not self._is_over.wait(_SWEEP_S):
            try:
                late = self.queue.sweep()
            except Exception:  # noqa: BLE001  # the database may come back
                _log.exception(
                    "cannot look for silent workers; trying again"
                )  # the database may come back
                continue
            for task in late:
                _say(task, "taken from a worker that is silent")
            self.changes.tell(*late, *([Changes.WORK] if late else []))

    # The dataset

    def definition(self, name: str) -> Definition:
        """Find a definition."""
        found = self.trace_set.definitions.get(name)
        if found is None:
            near = did_you_mean(name, self.trace_set.definitions)
            raise RefusedError(404, f"Definition not found: {shortened(name)}{near}")
        return found

    def workloads(self, name: str) -> list[Workload]:
        """Give a definition's workloads."""
        return list(self._workloads(self.definition(name).name).values())

    def workload(self, uuid: str) -> Workload:
        """Find a workload by its uuid."""
        for name in self.trace_set.definitions:
            found = self._workloads(name).get(uuid)
            if found is not None:
                return found
        raise RefusedError(404, f"Workload not found: {shortened(uuid)}")

    def _workloads(self, definition: str) -> dict[str, Workload]:
        traces = self.trace_set.workloads.get(definition, [])
        return {trace.workload.uuid: trace.workload for trace in traces}

    # Submitting

    def submit(
        self, submission: messages.Submission, caller: Requester, idempotency_key: str | None = None
    ) -> messages.Submitted:
        """Take a solution in; it is on disk when this returns."""
        if self.is_draining:
            raise RefusedError(
                503, "this server is about to end; submit again later", retry_after_s=30
            )
        solution = submission.solution
        _require_text(solution)
        definition = self.trace_set.definitions.get(solution.definition)
        if definition is None:
            near = did_you_mean(solution.definition, self.trace_set.definitions)
            raise RefusedError(400, f"Definition not found: {shortened(solution.definition)}{near}")
        _require_names(solution)
        author = solution.author if caller.tenant == LOCAL.tenant else caller.tenant
        names = self._names(solution)

        def document(name: str) -> str:
            return solution.model_copy(update={"name": name, "author": author}).to_json()

        new = functools.partial(
            NewTask,
            tenant=caller.tenant,
            definition=definition.name,
            names=names,
            solution_hash=solution.hash(),
            author=author,
            documents=(document(names[0]), document(names[1])),
            hardware=submission.hardware,
            is_fresh=submission.fresh,
            request_hash=hashlib.sha256(submission.to_json().encode()).hexdigest(),
            idempotency_key=idempotency_key,
        )
        row = self._add(new, definition, submission, caller.tenant)
        return messages.Submitted(
            task_id=row["id"],
            normalized_solution_name=row["solution"],
            status=row["state"],
            cached=row["state"] == "completed" and not submission.fresh,
        )

    def evaluate_again(self, task_id: str, caller: Requester, idempotency_key: str) -> str:
        """Evaluate a task's solution once more, on the same workloads with other inputs, as another task."""
        old = self.queue.task(task_id, None)
        solution = Solution.model_validate_json(old["document"])
        submission = messages.Submission(
            solution=solution,
            workload_uuids=json.loads(old["workloads"]),
            hardware=old["hardware"],
            fresh=True,
        )
        new = functools.partial(
            NewTask,
            tenant=caller.tenant,
            definition=solution.definition,
            names=(solution.name, solution.name),
            solution_hash=solution.hash(),
            author=solution.author,
            documents=(old["document"], old["document"]),
            hardware=old["hardware"],
            is_fresh=True,
            request_hash=task_id,
            idempotency_key=idempotency_key,
        )
        definition = self.trace_set.definitions[solution.definition]
        return str(self._add(new, definition, submission, caller.tenant)["id"])

    def _add(
        self,
        new: Callable[..., NewTask],
        definition: Definition,
        submission: messages.Submission,
        tenant: str,
    ) -> Row:
        """Put a task on disk, with its workloads and where they are to run."""
        chosen, fault = self._places.chosen(definition, submission)
        if fault is not None:
            row = self.queue.add(new(workloads=(), error=fault))
        else:
            batches = self._places.batches(submission, definition, chosen, tenant)
            workloads = tuple(each.uuid for each in chosen)
            row = self.queue.add(new(workloads=workloads, batches=batches))
        _say(row["id"], f"{row['solution']} of {tenant}: {row['state']}")
        self.changes.tell(Changes.WORK)
        return row

    def _names(self, solution: Solution) -> tuple[str, str]:
        """Name a solution by its content's hash; longer, where the dataset has other code of that name."""
        short = f"{solution.name}_{solution.legacy_hash()[:8]}"
        long = f"{short}_{solution.hash().rpartition('-')[2][:8]}"
        owner = self.trace_set.get_solution(short)
        is_free = owner is None or owner.hash() == solution.hash()
        return (short if is_free else long), long

    # Looking

    def state(self, task_id: str, caller: Requester) -> messages.TaskState:
        """Say how far a task is."""
        row = self.queue.task(task_id, caller.sees)
        ended = row["state"] in ENDED
        results = row["results"]
        traces = [Trace.model_validate_json(r["trace"]) for r in results if r["trace"] is not None]
        return messages.TaskState(
            task_id=row["id"],
            status=row["state"],
            definition=row["definition"],
            solution=row["solution"],
            traces=traces if ended and (traces or row["outcome"] == "evaluated") else None,
            error=row["error"],
            outcome=row["outcome"],
            cached=bool(traces) and all(r["is_cached"] for r in results),
            hardware=row["hardware"],
            created_s=row["created_s"],
            ended_s=row["ended_s"],
            ended_workloads=len(results),
            all_workloads=len(json.loads(row["workloads"])) * row["batches"],
            left_out=[
                messages.LeftOutWorkload(workload=r["workload"], reason=r["reason"] or "")
                for r in results
                if r["trace"] is None
            ],
            waiting_for=self._waiting_for(row),
        )

    def _waiting_for(self, row: Row) -> str | None:
        """Say why nobody works at a task, where there is nobody who could."""
        if row["state"] != "pending":
            return None
        there = [each.capability for each in self._places.known_workers() if each.is_there]
        lacking = [
            each["hardware"] or "any hardware"
            for each in row["waiting"]
            if not any(self._fits(each["requirement"], capability) for capability in there)
        ]
        return f"a worker that can run it: none is here for {lacking[0]}" if lacking else None

    def health(self) -> messages.Health:
        """Say who evaluates, and how much waits."""
        workers = [
            messages.WorkerState(
                device=row["device"].removeprefix(f"{OWN}/"),
                healthy=row["is_there"] and not row["quarantined"],
                hardware=capability.hardware,
                kind=capability.kind,
                reason=row["quarantined"] or (None if row["is_there"] else "not heard of"),
                key=row["key"] or None,
            )
            for row in self.queue.workers()
            if row["left_s"] is None
            for capability in [Capability.model_validate_json(row["capability"])]
        ]
        return messages.Health(
            status="draining" if self.is_draining else "ok",
            workers=workers,
            queue_size=self.queue.waiting_count(),
        )

    def cancel(self, task_id: str, caller: Requester) -> messages.TaskState:
        """End a task at whatever stage it is."""
        self.queue.cancel(task_id, caller.sees)
        _say(task_id, f"cancelled by {caller.tenant}")
        self.changes.tell(task_id)
        return self.state(task_id, caller)

    # Workers

    def register(self, registration: messages.Registration) -> messages.AcceptedWorker:
        """Take in a worker."""
        require_version(registration.capability.version)
        worker = self.queue.register(registration.name, registration.capability, registration.key)
        self.changes.tell(Changes.WORK)
        return messages.AcceptedWorker(
            worker=worker, lease_s=self.queue.limits.lease_s, config=self.config.model_dump_json()
        )

    def take(self, worker_id: str) -> messages.Grant | None:
        """Give a worker its next batch; None where there is nothing for it now."""
        if self.is_draining:
            return None
        leased = self.queue.take(worker_id, self._fits)
        if leased is None:
            return None
        _say(leased.task, f"attempt {leased.attempt} begins")
        self.changes.tell(leased.task)
        known = self._workloads(leased.definition)
        return messages.Grant(
            lease=leased.lease,
            task=leased.task,
            attempt=leased.attempt,
            definition=self.trace_set.definitions[leased.definition],
            solution=Solution.model_validate_json(leased.document),
            workloads=[known[uuid] for uuid in leased.workloads],
            config=self.config.model_dump_json(),
        )

    def _fits(self, requirement: str, capability: Capability) -> bool:
        asked = self._asked_by(requirement)
        if asked is None:
            return False
        solution, hardware = asked
        return why_not(solution, hardware, capability, self.config) is None

    def _look_up(self, requirement: str) -> tuple[Solution, str | None] | None:
        row = self.queue.asked_by(requirement)
        if row is None:
            return None
        solution = Solution.model_validate_json(row["document"])
        named = [each.model_copy(update={"content": ""}) for each in solution.sources]
        return solution.model_copy(update={"sources": named}), row["hardware"]  # many are kept

    def keep(self, lease: str, beat: messages.Beat) -> messages.LeaseState:
        """Prolong a lease."""
        task = self.queue.keep(lease, [(each.kind, each.data) for each in beat.events])
        if task is not None and beat.events:
            self.changes.tell(task)
        return messages.LeaseState(is_held=task is not None)

    def finish(self, lease: str, result: messages.WorkerResult) -> None:
        """Take in how a workload ended; its trace is in the dataset when this returns."""
        task, worker = self.queue.leased(lease)
        capability = Capability.model_validate_json(worker["capability"])
        _require_fitting(result, task)
        signature = _signature(result, worker)
        definition = self.trace_set.definitions[task["definition"]]
        workload = self._workloads(definition.name)[result.workload]
        solution = Solution.model_validate_json(task["document"])
        keys = self._places.cache_keys(solution, definition, [workload], task["tenant"], capability)
        ended = StoredResult(
            result.workload,
            capability.hardware,
            None if result.trace is None else result.trace.to_json(),
            result.reason,
            None if result.samples is None else json.dumps(result.samples),
            keys[result.workload],
            signature,
        )
        summary = _summary(result, workload)
        task_id = self.queue.finish(lease, ended, summary)
        _say(task_id, f"{summary['status'] or 'no trace'} with {summary['axes']}")
        try:
            # first: who waits for the end looks at the dataset next
            self._recorder.catch_up((task_id, result.workload))
        finally:
            self.changes.tell(task_id)
            self.changes.tell_of_result(task["tenant"])

    def release(self, lease: str, release: messages.Release) -> None:
        """Take a batch back."""
        task = self.queue.release(lease, release.reason, is_fault=release.is_fault)
        if task is not None:
            _say(task, f"given back: {shortened(' '.join(release.reason.split()), 300)}")
            self.changes.tell(task, Changes.WORK)

    def leave(self, worker_id: str) -> None:
        """Let a worker go that says so."""
        tasks = self.queue.leave(worker_id, "its worker left", is_fault=False)
        self.changes.tell(*tasks, Changes.WORK)

    def note_own_workers_died(self, reason: str) -> None:
        """Take back what workers held that this server had started, and which have ended."""
        for row in self.queue.workers():
            if row["left_s"] is None and row["device"].startswith(f"{OWN}/"):
                tasks = self.queue.leave(row["id"], reason, is_fault=True)
                self.changes.tell(*tasks, Changes.WORK)

    def forgive(self, device: str) -> None:
        """End a device's quarantine."""
        if not (self.queue.forgive(device) or self.queue.forgive(f"{OWN}/{device}")):
            raise RefusedError(404, f"no device {shortened(device)!r}; `GET /health` names them")
        self.changes.tell(Changes.WORK)


def _say(task: str, text: str) -> None:
    """Write a line of the log that names its task."""
    _log.info("task %s: %s", task, text, extra={"task": task})


def _require_text(solution: Solution) -> None:
    """Refuse halves of characters, which JSON can name and no file holds."""
    try:
        for each in (solution.definition, *(source.content for source in solution.sources)):
            each.encode()
        solution.to_json()
    except ValueError as error:  # of encoding here, or within pydantic
        raise RefusedError(
            422, "the solution has half a character in it (a lone surrogate): write UTF-8"
        ) from error


def _require_names(solution: Solution) -> None:
    """Refuse names that cannot be files of traces, or would do something to who reads them."""
    for key, text in (("name", solution.name), ("author", solution.author)):
        is_long = len(text.encode()) > _MOST_NAME_BYTES
        if not layout.is_name(text) or not text.isprintable() or is_long:
            raise RefusedError(
                422,
                f"the solution's {key} {shortened(text)!r} cannot be a file's name: use letters and digits, "
                f"{_MOST_NAME_BYTES} bytes at most",
            )
    if len(solution.sources) > messages.MOST_FILES:
        raise RefusedError(
            422, f"{len(solution.sources)} source files; {messages.MOST_FILES} are taken"
        )


def _require_fitting(result: messages.WorkerResult, task: Row) -> None:
    """Refuse a result of something else."""
    if result.workload not in json.loads(task["workloads"]):
        raise RefusedError(422, f"the task has no workload {shortened(result.workload)!r}")
    if (result.trace is None) is (result.reason is None):
        raise RefusedError(422, "give a trace, or the reason why there is none")
    trace = result.trace
    if trace is None:
        return
    named = (trace.definition, trace.solution, trace.workload.uuid)
    if named != (task["definition"], task["solution"], result.workload):
        raise RefusedError(422, "the trace is of another job than the one that was leased")
    if trace.evaluation is None or trace.evaluation.provenance is None:
        raise RefusedError(422, "the trace lacks its evaluation or provenance")


def _signature(result: messages.WorkerResult, worker: Row) -> str | None:
    """Give the line that says who signed a trace; refused where it was not the worker that has the lease."""
    if result.trace is None:
        return None
    assert result.trace.evaluation is not None
    assert result.trace.evaluation.provenance is not None
    name = worker["device"]
    if result.signature is None:
        raise RefusedError(422, "the trace is not signed: a worker signs each one")
    signed = SignedTrace(
        trace_id=result.trace.evaluation.provenance.trace_id,
        worker=name,
        key=worker["key"],
        samples_sha256=samples_digest(result.trace, result.samples),
        signature=result.signature,
    )
    if not signed.covers(result.trace.to_json().encode()):
        raise RefusedError(
            422, f"the signature is not of this trace by {name} with the key {worker['key']}"
        )
    return signed.to_json()


def _summary(result: messages.WorkerResult, workload: Workload) -> dict[str, Any]:
    """Say in an event how a workload ended."""
    about = {"workload": workload.uuid, "axes": axes_text(workload.axes)}
    if result.trace is None or result.trace.evaluation is None:
        return {**about, "status": None, "reason": result.reason}
    return {**about, "status": result.trace.evaluation.status.value}
