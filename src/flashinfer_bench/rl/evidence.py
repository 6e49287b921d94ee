"""Traces become a verdict: the same traces give the same number, wherever they were made."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING

from flashinfer_bench.rl.feedback import feedback_of
from flashinfer_bench.rl.reward import gain, reward
from flashinfer_bench.rl.verdicts import KernelVerdict, WorkloadVerdict
from flashinfer_bench.stats.means import geometric_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.data import Evaluation, Solution, Trace
    from flashinfer_bench.rl.verdicts import Split

NOT_BUILT = "COMPILE_ERROR"
PASSED = "PASSED"


def verdict_of(
    solution: Solution,
    split: Split,
    traces: Sequence[Trace],
    *,
    total: int,
    stopped: str | None = None,
    is_audited: bool = True,
) -> KernelVerdict:
    """Sum up the traces of one kernel on a split of `total` workloads; those without a trace did not pass.

    Weak workloads, on which less than the work passes, are left out as in rankings.
    """
    ended = [each.evaluation for each in traces if each.evaluation is not None]
    weak = [each for each in traces if each.evaluation is not None and each.evaluation.task_notes]
    counted = [each for each in traces if each not in weak]
    lines = tuple(_line(each) for each in counted if each.evaluation is not None)
    total -= len(weak)
    broken = tuple(dict.fromkeys(code for each in ended for code in violations_of(each)))
    built = any(each.status != NOT_BUILT for each in ended)
    share = sum(line.status == PASSED for line in lines) / total if total else 0.0
    right = bool(total) and share == 1.0 and not broken
    timed = [line for line in lines if line.speedup is not None and line.speedup_lower is not None]
    is_timed = right and len(timed) == total
    return KernelVerdict(
        candidate=solution.hash(),
        definition=solution.definition,
        split=split,
        reward=reward(
            built=built,
            right_share=share,
            gains=[line.gain for line in lines],
            is_violating=bool(broken),
        ),
        built=built,
        right=right,
        audited=is_audited and not broken and all(_is_confined(each) for each in ended),
        right_share=share,
        speedup=geometric_mean([line.speedup or 0.0 for line in timed]) if is_timed else None,
        speedup_lower=geometric_mean([line.speedup_lower or 0.0 for line in timed])
        if is_timed
        else None,
        sol_fraction=fmean(min(line.sol_fraction or 0.0, 1.0) for line in timed)
        if is_timed
        else None,
        violations=broken,
        stopped=stopped,
        tried=len(lines),
        total=total,
        weak=len(weak),
        workloads=() if split == "test" else lines,
        feedback=feedback_of(split, [*counted, *weak], broken, stopped),
        hardware=ended[0].environment.hardware if ended else "",
    )


def violations_of(evaluation: Evaluation) -> list[str]:
    """Name the rules that a job broke."""
    extra = (evaluation.correctness.extra if evaluation.correctness else None) or {}
    return [each["code"] for each in extra.get("violations", ())]


def _line(trace: Trace) -> WorkloadVerdict:
    evaluation = trace.evaluation
    assert evaluation is not None
    measured = evaluation.performance
    interpreted = evaluation.provenance is not None and evaluation.provenance.interpreted
    status = evaluation.status.value
    if measured is None or interpreted or measured.reference_latency_ms is None:
        return WorkloadVerdict(trace.workload.axes, status)
    lower = measured.speedup_interval[0] if measured.speedup_interval else None
    return WorkloadVerdict(
        trace.workload.axes,
        status,
        measured.speedup_factor,
        lower,
        measured.sol_fraction,
        None
        if lower is None
        else gain(lower, measured.latency_ms, measured.reference_latency_ms, measured.sol_fraction),
    )


def _is_confined(evaluation: Evaluation) -> bool:
    """Whether the sandbox had all its measures; not where it was off, or left some out."""
    known = evaluation.provenance
    return known is not None and known.sandbox != "off" and not known.sandbox_missing
