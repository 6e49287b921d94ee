"""A worker: it pulls batches, runs them with this machine's own pool, and sends each end before the next job begins."""

from __future__ import annotations

import contextlib
import logging
import platform
import threading
from collections import deque
from typing import TYPE_CHECKING

from flashinfer_bench.bench.benchmark import Step, benchmark
from flashinfer_bench.bench.config import BenchmarkConfig
from flashinfer_bench.bench.outcomes import DatasetFault, Skipped
from flashinfer_bench.bench.parent.events import Building, Lost, Reached, Started, Waiting
from flashinfer_bench.bench.parent.pool import LocalPool
from flashinfer_bench.bench.plan import jobs_for
from flashinfer_bench.bench.record import begin_run
from flashinfer_bench.data.wording import axes_text
from flashinfer_bench.errors import BenchError
from flashinfer_bench.serve import messages
from flashinfer_bench.serve.capabilities import capability_of, device_name, target_of
from flashinfer_bench.serve.links import UnreachableError, persistently
from flashinfer_bench.serve.refusals import RefusedError
from flashinfer_bench.serve.signing import SigningKey, samples_digest, trace_message

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from flashinfer_bench.bench.parent.events import Progress
    from flashinfer_bench.data import Trace
    from flashinfer_bench.serve.links import WorkerLink

_log = logging.getLogger(__name__)
_WAIT_S = 20.0
_BEATS_A_LEASE = 5
_GONE = 404
_NOT_LET_IN = (401, 403)
_NOT_OF_ITS_KIND = 422
_MOST_REASON = 9_000


def machine_name() -> str:
    """Name this machine as workers do."""
    return platform.node()[:100] or "worker"


class DeviceWorker:
    """One device that works for a server, until it is told to stop."""

    def __init__(
        self,
        link: WorkerLink,
        device: str,
        *,
        name: str | None = None,
        roots: Sequence[Path] = (),
        key: SigningKey | None = None,
        tell: Callable[[str], None] = _log.info,
    ) -> None:
        self.device = device
        self._link = link
        self._name = name or machine_name()
        self._key = key or SigningKey()
        self._roots = tuple(roots)
        self._tell = tell
        self._is_stopping = threading.Event()
        self._worker: str | None = None
        self._held: _HeldLease | None = None
        self._pool: LocalPool | None = None
        self._config: str | None = None
        self._capability = capability_of(device, None)

    def run(self) -> None:
        """Work; ends when it is told to, or where the server refuses this worker."""
        try:
            while not self._is_stopping.is_set():
                self._worker = self._worker or self._register()
                self._worker = self._turn(self._worker)
        except UnreachableError:
            if not self._is_stopping.is_set():
                raise
        finally:
            self.leave()
            if self._pool is not None:
                self._pool.close()

    @property
    def is_busy(self) -> bool:
        """Whether it has a batch in hand."""
        return self._held is not None

    def stop(self, *, at_once: bool = False) -> None:
        """Take no more batches; `at_once` gives back the one in hand."""
        self._is_stopping.set()
        held = self._held
        if at_once and held is not None:
            held.end()

    def _register(self) -> str:
        registration = messages.Registration(
            name=self._name, capability=self._capability, key=self._key.public
        )
        registered: messages.AcceptedWorker = persistently(
            lambda: self._link.register(registration), self._is_stopping, self._tell
        )
        self._lease_s = registered.lease_s
        self._tell(f"{self._name}/{self.device} ({self._capability.hardware}) works")
        return registered.worker

    def _turn(self, worker: str) -> str | None:
        """Take a batch and do it; None where the server knows this worker no longer."""
        try:
            grant = persistently(
                lambda: self._link.take(worker, _WAIT_S), self._is_stopping, self._tell
            )
        except RefusedError as error:
            if error.status == _GONE:
                return None
            if error.status in _NOT_LET_IN:
                raise
            self._tell(str(error))
            self._is_stopping.wait(error.retry_after_s or 1)
            return worker
        if grant is not None:
            self._do(grant)
        return worker

    def leave(self) -> None:
        """Tell the server not to count on this device."""
        worker, self._worker = self._worker, None
        if worker is not None:
            try:
                self._link.leave(worker)
            except BenchError as error:
                _log.debug("%s", error)

    def _do(self, grant: messages.Grant) -> None:
        """Do a batch under its lease; what was not done goes back."""
        pool, config = self._pool_for(grant.config)
        held = _HeldLease(
            self._link,
            grant.lease,
            self._lease_s / _BEATS_A_LEASE,
            pool.close,
            self._tell,
            signed=self._signed,
        )
        self._held = held
        try:
            with held:
                self._run(grant, pool, config, held)
            reason = "its worker stopped"
            is_fault = False
        except Exception as error:  # noqa: BLE001  # whatever it is, another device is to try it, and not for ever
            said = str(error) if isinstance(error, BenchError) else repr(error)
            reason, is_fault = f"{self._name}/{self.device}: {said}", not held.is_over
            self._tell(f"the batch of task {grant.task} failed here: {said}")
        finally:
            self._held = None
        if is_fault or held.is_over:
            release = messages.Release(reason=reason[:_MOST_REASON], is_fault=is_fault)
            try:
                self._link.release(grant.lease, release)
            except BenchError as error:
                _log.debug("%s", error)

    def _signed(self, result: messages.WorkerResult) -> messages.WorkerResult:
        """Sign a result's trace, as its line will stand in the dataset."""
        if result.trace is None:
            return result
        digest = samples_digest(result.trace, result.samples)
        name = device_name(self._name, self.device)
        message = trace_message(result.trace.to_json().encode(), name, digest)
        return result.model_copy(update={"signature": self._key.sign(message)})

    def _pool_for(self, config_text: str) -> tuple[LocalPool, BenchmarkConfig]:
        """Give the pool for the operator's settings; it stays warm from lease to lease while they stay."""
        config = BenchmarkConfig.model_validate_json(config_text)
        if self._pool is None or config_text != self._config:
            if self._pool is not None:
                self._pool.close()
            self._pool = LocalPool(
                [self.device],
                config=config,
                roots=self._roots,
                threads=target_of(self._capability, config).threads,
            )
            self._config = config_text
        return self._pool, config

    def _run(
        self,
        grant: messages.Grant,
        pool: LocalPool,
        config: BenchmarkConfig,
        held: _HeldLease,
    ) -> None:
        target = target_of(self._capability, config)
        jobs = jobs_for(grant.definition, grant.solution, grant.workloads, config, target)
        run = begin_run(threads=target.threads, label=config.label, root=None, roots=self._roots)
        steps = benchmark(
            held,
            pool,
            [jobs],
            run,
            is_strict=config.strict,
            unseen_count=config.unseen,
            seed=config.seed,
            observe=held.observe,
        )
        for step in steps:
            if step.trace is None:
                held.hand_in(
                    messages.WorkerResult(
                        workload=step.job.workload.uuid, reason=_reason(step)[:_MOST_REASON]
                    )
                )
            if held.is_over:
                held.join()  # it stops the pool, which must not be stopped twice at once
                return


def _reason(step: Step) -> str:
    match step.outcome:
        case Skipped(reason=reason):
            return f"this machine cannot run it: {reason}"
        case DatasetFault(explanation=explanation):
            return f"the dataset is at fault: {explanation}"
        case _:
            return "it left no trace"


class _HeldLease:
    """A lease, kept by heartbeats; traces are handed in under it, and one that is over ends the work."""

    def __init__(
        self,
        link: WorkerLink,
        lease: str,
        beat_s: float,
        stop: Callable[[], None],
        tell: Callable[[str], None],
        *,
        signed: Callable[[messages.WorkerResult], messages.WorkerResult],
    ) -> None:
        self._signed = signed
        self._link = link
        self._lease = lease
        self._beat_s = beat_s
        self._stop = stop
        self._tell = tell
        self._events: deque[messages.WorkerEvent] = deque(maxlen=messages.MOST_EVENTS)
        self._wakes = threading.Event()
        self._is_done = threading.Event()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="serve-beat", daemon=True)

    def __enter__(self) -> _HeldLease:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_done.set()
        self._wakes.set()
        self._thread.join()

    @property
    def is_over(self) -> bool:
        """Whether the work was ended before its end."""
        return self._is_over.is_set()

    def join(self) -> None:
        """Wait until the work has ended."""
        self._thread.join()

    def end(self) -> None:
        """End the work: the task was cancelled, the batch is another's, or the worker is to stop."""
        self._is_over.set()
        self._wakes.set()

    def append(
        self,
        trace: Trace,
        *,
        samples: Mapping[str, Sequence[float]] | None = None,
        author: str | None = None,  # noqa: ARG002  # the server knows whose it is
    ) -> None:
        """Hand a trace in; the next job begins when the server has it."""
        plain = None if samples is None else {name: list(each) for name, each in samples.items()}
        result = messages.WorkerResult(workload=trace.workload.uuid, trace=trace, samples=plain)
        self.hand_in(self._signed(result))

    def hand_in(self, result: messages.WorkerResult) -> None:
        """Hand in how a workload ended; one that comes too late counts for nothing."""
        if self.is_over:
            return
        try:
            self._tell_rest()
            persistently(lambda: self._link.finish(self._lease, result), self._is_over, self._tell)
        except RefusedError as error:
            if error.status == _NOT_OF_ITS_KIND:  # the next worker's may be: a try that counts
                raise
            self._tell(str(error))
            self.end()
        except UnreachableError:
            self.end()

    def observe(self, event: Progress) -> None:
        """Tell the task's events with the next heartbeat, which is now."""
        match event:
            case Started(job=job):
                data = {"workload": job.workload.uuid, "axes": axes_text(job.workload.axes)}
                self._events.append(messages.WorkerEvent(kind="started", data=data))
            case Building(solutions=solutions):
                if not solutions:
                    return
                self._events.append(messages.WorkerEvent(kind="building", data={}))
            case Waiting(device=device):
                self._events.append(messages.WorkerEvent(kind="waiting", data={"device": device}))
            case Reached(stage=stage, trial=trial, trials=trials):
                data = {"trial": str(trial), "trials": str(trials)} if trial else {}
                self._events.append(messages.WorkerEvent(kind=stage, data=data))
                return  # with the next heartbeat: nothing is sent while a trial begins to be timed
            case Lost():
                return
        self._wakes.set()

    def _beat(self) -> None:
        while not self._is_done.is_set():
            told = self._popped()
            if self.is_over or not self._is_kept(told):
                self._is_over.set()
                self._stop()
                return
            self._wakes.wait(self._beat_s)
            self._wakes.clear()

    def _tell_rest(self) -> None:
        """Tell what no heartbeat told yet, so that events come in the order in which things happened."""
        told = self._popped()
        if told:
            beat = messages.Beat(events=told)
            persistently(lambda: self._link.beat(self._lease, beat), self._is_over, self._tell)

    def _popped(self) -> list[messages.WorkerEvent]:
        told = []
        with contextlib.suppress(IndexError):  # two threads take from it
            while True:
                told.append(self._events.popleft())
        return told

    def _is_kept(self, told: list[messages.WorkerEvent]) -> bool:
        """Tell whether the lease holds; a server that does not answer may yet."""
        try:
            state = self._link.beat(self._lease, messages.Beat(events=told))
        except UnreachableError:
            return True
        except RefusedError as error:
            self._tell(str(error))
            return False
        if not state.is_held:
            self._tell("this lease is over: its task was cancelled, or its batch went to another")
        return state.is_held
