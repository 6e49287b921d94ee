"""One kernel while it is judged: what was tried of it, when it is stopped, and what is said of it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from flashinfer_bench.bench.outcomes import DatasetFault, Skipped
from flashinfer_bench.data import Solution
from flashinfer_bench.errors import BenchError, DeviceError, StorageError, UsageError
from flashinfer_bench.rl.evidence import NOT_BUILT, verdict_of, violations_of
from flashinfer_bench.rl.feedback import shortened
from flashinfer_bench.rl.ledger import verdict_key
from flashinfer_bench.rl.reward import reward
from flashinfer_bench.rl.verdicts import JudgeBudget, JudgeCost, KernelVerdict

if TYPE_CHECKING:
    from pathlib import Path

    from flashinfer_bench.bench.benchmark import Step
    from flashinfer_bench.data import Trace, Workload
    from flashinfer_bench.rl.verdicts import Cause, Split

_HOPELESS = frozenset({NOT_BUILT, "TIMEOUT"})
_LOSES = 0.5
"""A kernel whose speedup lies below this with 95% on the first workload is not tried on the others."""


@dataclass(slots=True)
class JudgedKernel:
    """A kernel while it is judged."""

    solution: Solution
    workloads: list[Workload]
    traces: list[Trace] = field(default_factory=list)
    device_seconds: float = 0.0
    builds: int = 0
    stopped: str | None = None
    fault: tuple[Cause, str] | None = None

    @property
    def is_open(self) -> bool:
        """Whether workloads are left to try."""
        return bool(self.workloads) and self.stopped is None and self.fault is None


def verdict_of_kernel(
    subject: JudgedKernel, split: Split, *, total: int, began_s: float, is_audited: bool
) -> KernelVerdict:
    """Sum up a kernel that is no longer tried."""
    fault = subject.fault
    if (
        fault is None
        and subject.traces
        and all(e.evaluation and e.evaluation.task_notes for e in subject.traces)
    ):
        fault = ("dataset", "every workload of this split is weak: less than the work passes")
    if fault is not None:
        return _without_verdict(subject.solution, split, fault, began_s, subject)
    found = verdict_of(
        subject.solution,
        split,
        subject.traces,
        total=total,
        stopped=subject.stopped,
        is_audited=is_audited,
    )
    return replace(found, cost=_cost(subject, began_s))


def take(subject: JudgedKernel, step: Step, seconds: float) -> None:
    """Take the end of a job, and how long the device was held for it."""
    subject.device_seconds += seconds
    if step.trace is not None:
        subject.traces.append(step.trace)
        return
    match step.outcome:
        case Skipped(reason=reason):
            subject.fault = ("machine", reason)
        case DatasetFault(explanation=explanation):
            subject.fault = ("dataset", explanation)
        case _:
            subject.fault = ("worker", "the job left no trace")


def why_stopped(subject: JudgedKernel, limits: JudgeBudget) -> str | None:
    """Say why a kernel is not tried on the rest; None to go on. Sets a fault where the budget was too small."""
    ended = [each.evaluation for each in subject.traces if each.evaluation is not None]
    hopeless = [each.status.value for each in ended if each.status.value in _HOPELESS]
    if hopeless:
        return f"{hopeless[0]} on one workload"
    if any(violations_of(each) for each in ended):
        return "it broke a rule of evaluation"
    upper = [p.speedup_interval[1] for e in ended if (p := e.performance) and p.speedup_interval]
    if upper and upper[0] < _LOSES:
        return f"on the first workload it is slower than {_LOSES:g} times the reference's speed, with 95%"
    if subject.device_seconds < limits.device_seconds:
        return None
    spent = f"{limits.device_seconds:g} device seconds were spent after {len(ended)} workloads"
    if any(value < 1 for value in upper) or len(upper) < len(ended):
        return spent
    subject.fault = (
        "budget",
        f"{spent}, and the kernel is not slower than the reference: raise the budget",
    )
    return None


def cause_of(error: BaseException) -> Cause:
    """Say what an error of ours was about."""
    if isinstance(error, StorageError) or (
        isinstance(error, OSError) and not isinstance(error, BenchError)
    ):
        return "disk"
    return "device" if isinstance(error, DeviceError | UsageError) else "worker"


def unjudged(
    code: str | Path | Solution,
    definition: str,
    split: Split,
    fault: tuple[Cause, str],
    began_s: float,
) -> KernelVerdict:
    """Answer where there is not even a device: nothing was looked at."""
    return KernelVerdict(
        candidate=_text_hash(code),
        definition=definition,
        split=split,
        reward=None,
        cause=fault[0],
        no_verdict=fault[1],
        cost=_cost(None, began_s),
    )


def without_function(
    text: str, definition: str, split: Split, why: str, total: int
) -> KernelVerdict:
    """Judge a text that holds no function as what it is: a kernel that does not build."""
    return KernelVerdict(
        candidate=_text_hash(text),
        definition=definition,
        split=split,
        reward=reward(built=False, right_share=0.0, gains=[]),
        built=False,
        right=False,
        right_share=0.0,
        total=total,
        stopped="there is no function to build",
        feedback=shortened(f"not built: {why}"),
    )


def _text_hash(code: str | Path | Solution) -> str:
    return code.hash() if isinstance(code, Solution) else verdict_key(str(code))


def _without_verdict(
    solution: Solution,
    split: Split,
    fault: tuple[Cause, str],
    began_s: float,
    subject: JudgedKernel | None = None,
) -> KernelVerdict:
    return KernelVerdict(
        candidate=solution.hash(),
        definition=solution.definition,
        split=split,
        reward=None,
        cause=fault[0],
        no_verdict=fault[1],
        cost=_cost(subject, began_s),
    )


def _cost(subject: JudgedKernel | None, began_s: float) -> JudgeCost:
    wall_seconds = time.monotonic() - began_s
    if subject is None:
        return JudgeCost(wall_seconds=wall_seconds)
    built_ms = [
        e.performance.build_ms or 0.0
        for t in subject.traces
        if (e := t.evaluation) and e.performance is not None
    ]
    return JudgeCost(
        subject.device_seconds, wall_seconds, subject.builds, max(built_ms, default=0.0) / 1e3
    )
