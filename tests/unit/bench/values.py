"""Values as workers send them, for tests of what the parent makes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import settings

from flashinfer_bench.bench.attempts import Attempt
from flashinfer_bench.bench.config import BenchmarkConfig
from flashinfer_bench.bench.jobs import Job, Target
from flashinfer_bench.bench.outcomes import Errors, JobNote, Outcome, Passed, Samples
from flashinfer_bench.bench.parent.pool import FinishedJob
from flashinfer_bench.bench.plan import jobs_for
from flashinfer_bench.bench.protocol import Opened
from flashinfer_bench.bench.record import Run
from flashinfer_bench.data import Solution, Workload
from tests.flow.kernels import HONEST, INCREMENT, solution

if TYPE_CHECKING:
    from collections.abc import Sequence

STEADY = settings(deadline=None, derandomize=True)
"""The same examples every time, however busy the machine is."""

CPU = Target("cpu", "Test CPU", threads=2)
OPENED = Opened(
    1,
    hardware="Test CPU",
    lock_name="cpu",
    uuid="cpu",
    driver=None,
    cuda=None,
    libs={"torch": "2.8.0"},
    calibration={"empty_call_ns": 61.0},
    clock="wall",
    clock_version="1",
    clock_overhead_ns=61.0,
    latency_kind="wall",
    is_cold=False,
)
ATTEMPT = Attempt(2, 0xABC, follows_seed=True)
RUN = Run("run-1", threads=2, label="nightly")
EXACT = Errors(0.0, 0.0, 1.0)


def job(
    candidate: Solution | None = None, size: int = 8, config: BenchmarkConfig | None = None
) -> Job:
    """One job of the tiny definition."""
    workload = Workload(axes={"n": size}, inputs={"x": {"type": "random"}})
    settings = config or BenchmarkConfig()
    (made,) = jobs_for(INCREMENT, candidate or solution(HONEST), [workload], settings, CPU)
    return made


def samples(*blocks_ns: Sequence[float], is_reference: bool = False) -> Samples:
    """Samples of one candidate, given block by block."""
    name = "reference" if is_reference else "candidate"
    return Samples(name, is_reference, tuple(tuple(block) for block in blocks_ns), 3)


def passed(
    *by_participant: Samples, errors: Errors = EXACT, notes: tuple[JobNote, ...] = (), log: str = ""
) -> Passed:
    """A job that went well; ten blocks of a microsecond per call unless told otherwise."""
    measured = by_participant or (samples(*[[1000.0, 1000.0]] * 10),)
    return Passed(errors, measured, notes, bytes_moved=64, peak_memory_bytes=128, log=log)


def finished(outcome: Outcome, of: Job | None = None) -> FinishedJob:
    """A finished job."""
    return FinishedJob(of or job(), outcome, OPENED, attempt=ATTEMPT)
