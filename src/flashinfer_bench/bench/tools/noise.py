"""The noise floor of a machine: the same kernel timed against itself."""

from __future__ import annotations

import itertools
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashinfer_bench.bench.config import BenchmarkConfig
from flashinfer_bench.bench.jobs import Target
from flashinfer_bench.bench.parent.events import Waiting
from flashinfer_bench.bench.parent.pool import LocalPool, hardware_of
from flashinfer_bench.bench.plan import jobs_for
from flashinfer_bench.bench.record import status_and_log
from flashinfer_bench.bench.tools.ab import Ended, Limits, Round, run_ab
from flashinfer_bench.bench.tools.quick import compare
from flashinfer_bench.data import (
    AxisVar,
    BuildSpec,
    Definition,
    Solution,
    SourceFile,
    SupportedLanguages,
    TensorSpec,
    Workload,
)
from flashinfer_bench.errors import DeviceError
from flashinfer_bench.stats.blocks import noise
from flashinfer_bench.stats.verdicts import ratio_of

if TYPE_CHECKING:
    from flashinfer_bench.bench.parent.events import Progress
    from flashinfer_bench.stats.intervals import Interval

_ROUNDS = 6
_ITERATIONS = 10
_WARMUP_RUNS = 5
_TIMEOUT_S = 30
_SIZE = 1 << 18
_NANOSECONDS_PER_MS = 1e6
_SOURCE = "def run(x):\n    return x * 2.0 + 1.0\n"


@dataclass(frozen=True, slots=True)
class NoiseFloor:
    """The same kernel against itself: what differs is noise."""

    where: str
    """`worker processes` or `this process`."""
    ratio: float | None
    interval: Interval | None
    spread: float
    """Interquartile range of the samples over their median."""
    rounds: int
    latency_ms: float


class DeviceBusyError(DeviceError):
    """Another benchmark uses the device; nothing is wrong with it."""


def noise_in_workers(device: str, *, threads: int) -> NoiseFloor:
    """Build, judge and time a kernel of a megabyte against itself, as `ab` does.

    That it works shows that this machine can run kernels. Raises `DeviceBusyError` when another
    benchmark uses the device, `DeviceError` when the kernel does not run.
    """
    config = BenchmarkConfig(
        warmup_runs=_WARMUP_RUNS,
        iterations=_ITERATIONS,
        num_trials=1,
        profile_baseline=False,
        timeout_seconds=_TIMEOUT_S,
        build_timeout_seconds=_TIMEOUT_S,
        threads=threads,
    )
    kind = device.partition(":")[0]
    target = Target(kind, hardware_of(device), threads)
    solution = _solution(kind)
    workload = Workload(axes={"n": _SIZE}, inputs={"x": {"type": "random"}})
    jobs = jobs_for(_definition(), solution, [workload], config, target)
    pool = LocalPool((device,), config=config, roots=(), threads=threads)
    rounds: list[Round] = []
    try:
        for step in run_ab(jobs, solution, pool, limits=Limits(_ROUNDS), observe=_refuse_to_wait):
            if isinstance(step, Ended):
                status, log = status_and_log(step.outcome)
                raise DeviceError(f"a kernel that is right ended as {status or 'skipped'}: {log}")
            rounds.append(step)
    finally:
        pool.close()
    return _summed_up(rounds)


def noise_in_this_process() -> NoiseFloor:
    """Time plain Python against itself; needs no torch."""
    numbers = list(range(20_000))
    found = compare({"one": sum, "other": sum}, [numbers], samples=60)
    ratio, one = found.ratios["other"], found.measurements["one"]
    return NoiseFloor("this process", ratio.value, ratio.interval, one.noise, 1, one.latency_ms)


def _summed_up(rounds: list[Round]) -> NoiseFloor:
    ratio = ratio_of([each.ratios for each in rounds])
    samples = [
        list(itertools.chain.from_iterable(blocks))
        for each in rounds
        for blocks in (each.old_ns, each.new_ns)
    ]
    return NoiseFloor(
        where="worker processes",
        ratio=ratio.value,
        interval=ratio.interval,
        spread=statistics.median(noise(each) for each in samples),
        rounds=len(rounds),
        latency_ms=statistics.median(itertools.chain.from_iterable(samples)) / _NANOSECONDS_PER_MS,
    )


def _refuse_to_wait(event: Progress) -> None:
    if isinstance(event, Waiting):
        raise DeviceBusyError(f"{event.device} is in use by another benchmark")


def _definition() -> Definition:
    return Definition(
        name="doctor",
        op_type="elementwise",
        axes={"n": AxisVar()},
        inputs={"x": TensorSpec(shape=["n"], dtype="float32")},
        outputs={"y": TensorSpec(shape=["n"], dtype="float32")},
        reference=_SOURCE,
    )


def _solution(kind: str) -> Solution:
    return Solution(
        name="doctor",
        definition="doctor",
        author="doctor",
        spec=BuildSpec(
            language=SupportedLanguages.PYTHON,
            target_hardware=[kind],
            entry_point="main.py::run",
            destination_passing_style=False,
        ),
        sources=[SourceFile(path="main.py", content=_SOURCE)],
    )
