"""What a comparison says besides its verdicts: how far runs differ, what the machine did, what else changed."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from flashinfer_bench.stats.verdicts import THRESHOLD, Verdict
from flashinfer_bench.text.numbers import count_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.data.rows import TraceRow
    from flashinfer_bench.report.compare.result import ChangedJob, ComparedJob, Overall

_LEAST_OBSERVED = 6
"""Observations of how runs differ, below which a remark asks for more."""
_MOST_RUNS = 100
"""Nobody runs more."""


def remarks(
    overall: Sequence[Overall],
    pairs: Sequence[tuple[TraceRow, TraceRow]],
    by_latency: set[str],
    threshold: float,
) -> tuple[str, ...]:
    """Say what else differs; `pairs` are the newest traces of each job, `by_latency` hardware compared by latency."""
    found = [*_moved_machines(overall, by_latency), *_changed_conditions(pairs)]
    known = [each for each in overall if each.between_runs is not None]
    return (*found, *dict.fromkeys(_between_runs_text(each, threshold) for each in known))


def _between_runs_text(overall: Overall, threshold: float) -> str:
    """Say what the intervals of few runs know of how runs differ, and what would narrow them."""
    share = f"{100 * (overall.between_runs or 0.0):.2g}%"
    seen = (
        f"two runs of the same code differ by about {share} here"
        if overall.between_runs_observed >= _LEAST_OBSERVED
        else f"two runs of the same code are taken to differ by about {share}: few jobs show it"
    )
    reach = math.log1p(overall.shows_beyond or 0.0)
    now, then = (f"{100 * math.expm1(each) + 100 * threshold:.2g}%" for each in (reach, reach / 2))
    return (
        f"{seen}; these runs show changes beyond about {now}, four times as many, or `flashinfer-bench ab`, "
        f"beyond {then}{_deciding_text(overall)}"
    )


def _deciding_text(overall: Overall) -> str:
    undecided = overall.verdicts.get(str(Verdict.UNDECIDED), 0)
    if overall.runs_to_decide is None or not undecided:
        return ""
    is_near = overall.runs_to_decide > _MOST_RUNS
    runs = f"more than {_MOST_RUNS}" if is_near else f"at most about {overall.runs_to_decide}"
    which = "the undecided job" if undecided == 1 else f"half of the {undecided} undecided jobs"
    return f"; to decide {which} takes {runs} runs of each side"


def _moved_machines(overall: Sequence[Overall], by_latency: set[str]) -> list[str]:
    found = []
    for each in overall:
        if each.reference_ratio and abs(each.reference_ratio - 1) > THRESHOLD:
            off = "and ratios of them" if each.hardware in by_latency else "alone"
            found.append(
                f"on {each.hardware} the references, the same code on both sides, took "
                f"{1 / each.reference_ratio:.2f} times as long on the new side: latencies {off} are off by that"
            )
    return found


def _changed_conditions(pairs: Sequence[tuple[TraceRow, TraceRow]]) -> list[str]:
    """Name what else differs between the two traces of a job: any of it may be why a time does."""
    libraries, threads = set[str](), set[str]()
    for old, new in pairs:
        shared = old.libs.keys() & new.libs.keys()
        libraries |= {
            f"{name} {old.libs[name]} -> {new.libs[name]}"
            for name in shared
            if old.libs[name] != new.libs[name]
        }
        if None not in {old.threads, new.threads} and old.threads != new.threads:
            threads.add(f"{old.threads} -> {new.threads}")
    named = {"other libraries": libraries, "other numbers of threads": threads}
    return [f"{what}: {', '.join(sorted(found))}" for what, found in named.items() if found]


def remarks_on_jobs(jobs: Sequence[ComparedJob], changes: Sequence[ChangedJob]) -> tuple[str, ...]:
    """Say which jobs were judged by something else on the new side, and how many were not measured anew."""
    every: list[ComparedJob | ChangedJob] = [*jobs, *changes]
    return (*_judged_otherwise(every), *_not_measured(every))


def _judged_otherwise(jobs: Sequence[ComparedJob | ChangedJob]) -> list[str]:
    counted = Counter(
        (job.place.definition, ", ".join(job.judged_otherwise))
        for job in jobs
        if job.judged_otherwise
    )
    named = [
        f"{definition} ({what}; {count_text(count, 'job')})"
        for (definition, what), count in sorted(counted.items())
    ]
    return [f"judged by something else on the new side: {', '.join(named)}"] if named else []


def _not_measured(jobs: Sequence[ComparedJob | ChangedJob]) -> list[str]:
    same = sum(job.is_same_trace for job in jobs)
    if not same or same == len(jobs):
        return []
    return [
        f"{same} of {count_text(len(jobs), 'job')} not measured anew: the same trace on both sides"
    ]
