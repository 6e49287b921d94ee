"""A dataset, workers that are played, and traces that they send."""

from __future__ import annotations

from flashinfer_bench.bench import BenchmarkConfig
from flashinfer_bench.data import (
    Environment,
    Evaluation,
    EvaluationStatus,
    Provenance,
    RunInfo,
    Solution,
    Trace,
    TraceSet,
)
from flashinfer_bench.serve import messages
from flashinfer_bench.serve.capabilities import VERSION
from flashinfer_bench.serve.database import Database, SqliteDatabase
from flashinfer_bench.serve.queued import QueueLimits
from flashinfer_bench.serve.refusals import RefusedError
from flashinfer_bench.serve.service import Service
from flashinfer_bench.serve.signing import SigningKey, samples_digest, trace_message
from tests.flow.kernels import HONEST, dataset, solution

UUID = "trace"
KEY = SigningKey()
"""Of every worker that is played."""


def service(
    trace_set: TraceSet | None = None,
    *,
    sizes: tuple[int, ...] = (100,),
    database: Database | None = None,
    limits: QueueLimits | None = None,
) -> Service:
    """A service in memory."""
    return Service(
        trace_set or dataset(sizes=sizes),
        BenchmarkConfig.default(),
        database or SqliteDatabase(None),
        limits,
    )


def capability(**changes: object) -> messages.Capability:
    """A small machine."""
    known: dict[str, object] = {
        "device": "cpu",
        "kind": "cpu",
        "hardware": "a processor",
        "threads": 1,
        "memory_bytes": 1 << 30,
        "languages": ["python", "cpp"],
        "libs": {"python": "3"},
        "sandbox": "process",
        "version": VERSION,
    }
    return messages.Capability.model_validate(known | changes)


def register(to: Service, name: str = "box", **changes: object) -> str:
    """Play a worker that comes."""
    registration = messages.Registration(
        name=name, capability=capability(**changes), key=KEY.public
    )
    return to.register(registration).worker


def submission(
    source: str = HONEST, *, name: str = "candidate", **options: object
) -> messages.Submission:
    """A Python solution to submit."""
    return messages.Submission.model_validate({"solution": solution(source, name=name), **options})


def trace_of(grant: messages.Grant, *, seed: int = 1, index: int = 0) -> Trace:
    """A trace as a worker would send it."""
    given: Solution = grant.solution
    return Trace(
        definition=grant.definition.name,
        workload=grant.workloads[index],
        solution=given.name,
        evaluation=Evaluation(
            status=EvaluationStatus.RUNTIME_ERROR,
            environment=Environment(hardware="a processor"),
            timestamp="2026-01-01T00:00:00+00:00",
            provenance=Provenance(
                trace_id=f"{grant.lease}{index}",
                solution_hash=given.hash(),
                config_hash="0" * 16,
                seed=f"{seed:016x}",
                seed_given=False,
                run=RunInfo(id="run"),
                sandbox="process",
            ),
        ),
    )


def signed(
    trace: Trace,
    worker: str = "box/cpu",
    *,
    samples: dict[str, list[float]] | None = None,
    key: SigningKey = KEY,
) -> messages.WorkerResult:
    """A result as a worker signs it."""
    message = trace_message(trace.to_json().encode(), worker, samples_digest(trace, samples))
    return messages.WorkerResult(
        workload=trace.workload.uuid, trace=trace, samples=samples, signature=key.sign(message)
    )


def hand_in(to: Service, grant: messages.Grant, *, index: int = 0) -> None:
    """Play a worker that ends a workload."""
    try:
        worker = to.queue.leased(grant.lease)[1]["device"]
    except RefusedError:  # too late
        worker = "box/cpu"
    to.finish(grant.lease, signed(trace_of(grant, index=index), worker))


def do_all(to: Service, worker: str) -> list[messages.Grant]:
    """Play a worker that does whatever there is."""
    done = []
    while (grant := to.take(worker)) is not None:
        for index in range(len(grant.workloads)):
            hand_in(to, grant, index=index)
        done.append(grant)
    return done
