"""Which jobs recorded traces answer already."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashinfer_bench.data.wording import instant

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from flashinfer_bench.bench.jobs import Job, Target
    from flashinfer_bench.data import TraceSet, Workload
    from flashinfer_bench.data.rows import TraceRow

PASSED = "PASSED"
_ResumeKey = tuple[str, str, str, str, str]
"""Solution, workload, and the hashes of solution, definition and settings."""


@dataclass(frozen=True, slots=True)
class Resume:
    """Which recorded jobs count as done."""

    retries_failed: bool = False


def left_to_do(
    trace_set: TraceSet, jobs: list[Job], target: Target, resume: Resume | None
) -> tuple[list[Job], list[tuple[str, str]]]:
    """Give the jobs no trace answers, and solution and newest status of each that one does."""
    if resume is None:
        return jobs, []
    keys = [_resume_key(job) for job in jobs]
    wanted = {key: job.workload for key, job in zip(keys, jobs, strict=True)}
    answers = [
        answer
        for name in {job.definition.name for job in jobs}
        for answer in _answers(trace_set, name, target, wanted)
    ]
    answers.sort(key=lambda answer: instant(answer.timestamp))
    newest = {answer.key: answer.status for answer in answers}
    done = {
        key: status
        for key, status in newest.items()
        if status == PASSED or not resume.retries_failed
    }
    left = [job for key, job in zip(keys, jobs, strict=True) if key not in done]
    return left, [(key[0], done[key]) for key in keys if key in done]


@dataclass(frozen=True, slots=True)
class _Answer:
    """How a recorded job ended, and when."""

    key: _ResumeKey
    timestamp: str
    status: str


def _answers(
    trace_set: TraceSet,
    definition: str,
    target: Target,
    wanted: Mapping[_ResumeKey, Workload],
) -> Iterator[_Answer]:
    """Give what of the wanted a definition's traces answer here, with the same sizes and inputs.

    Traces that do not say it all are left out.
    """
    found = {
        index: _Answer(key, row.timestamp, row.status)
        for index, row in trace_set.traces.rows(definition, lambda _: (None, None))
        if row.hardware == target.hardware
        and (key := _key_of_row(row)) is not None
        and key in wanted
    }
    for index, workload in trace_set.traces.workloads_of(definition, found):
        if _is_same(workload, wanted[found[index].key]):
            yield found[index]


def _key_of_row(row: TraceRow) -> _ResumeKey | None:
    if row.solution_hash is None or row.definition_hash is None or row.config_hash is None:
        return None
    hashes = (row.solution_hash, row.definition_hash, row.config_hash)
    return (row.solution, row.workload_uuid, *hashes)


def _resume_key(job: Job) -> _ResumeKey:
    """What a recorded trace must agree in; the name too, so that equal code under two names is run twice."""
    hashes = (job.solution.hash(), job.definition.hash(), job.config_hash)
    return (job.solution.name, job.workload.uuid, *hashes)


def _is_same(recorded: Workload, now: Workload) -> bool:
    """Tell whether sizes and inputs are what they were; a tolerance is among the settings."""
    return recorded.axes == now.axes and recorded.inputs == now.inputs
