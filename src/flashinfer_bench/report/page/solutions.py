"""What the page of a solution shows."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flashinfer_bench.judging.diagnosis import cause_lines, diagnosis_in
from flashinfer_bench.report.page.overview import minute
from flashinfer_bench.report.page.sources import readable_log

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flashinfer_bench.data import Solution
    from flashinfer_bench.report.page.content import Content, RecordedJob
    from flashinfer_bench.report.visualize import DefinitionChart
    from flashinfer_bench.stats.intervals import Interval


@dataclass(frozen=True, slots=True)
class CodeVersion:
    """A version of the code that was built and measured somewhere."""

    code: str
    """Hash of the sources; empty where a trace does not say."""
    is_present: bool
    """Whether the dataset holds this very code."""
    hardware: str
    statuses: dict[str, int]
    first: str
    last: str

    @property
    def has_built(self) -> bool:
        """Whether anything came after the compiler."""
        return any(status != "COMPILE_ERROR" for status in self.statuses)


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Jobs that ended with the same log."""

    status: str
    log: str
    violations: tuple[tuple[str, str], ...]
    jobs: tuple[RecordedJob, ...]
    left_out: str | None
    """Why they do not count."""
    suspected: tuple[str, ...] = ()
    """The first cause that is suspected of the first of them, in lines."""


@dataclass(frozen=True, slots=True)
class JobsOn:
    """A solution's jobs on one kind of hardware."""

    hardware: str
    jobs: tuple[RecordedJob, ...]
    failures: tuple[FailureGroup, ...]
    """Those that count come first."""
    left_out: dict[int, str]
    """By place among the jobs, why one does not count."""


@dataclass(frozen=True, slots=True)
class ListedSolution:
    """A solution in the list of all, on one kind of hardware."""

    name: str
    definition: str
    author: str | None
    language: str | None
    hardware: str | None
    """None where nothing counts."""
    where: str
    """The hardware, or why there is none."""
    speedup: float | None
    speedup_interval: Interval | None
    passed: int
    failed: int
    violations: int
    specialised: str | None = None
    """Where it was wrong, or slow, on sizes that it had not seen."""


def lines(
    content: Content, drawn: Mapping[tuple[str, str], DefinitionChart]
) -> list[ListedSolution]:
    """List every solution on every kind of hardware, those that were not measured too."""
    found = [
        ListedSolution(
            name=each.solution,
            definition=definition,
            author=each.author,
            language=each.language,
            hardware=hardware,
            where=hardware,
            speedup=each.speedup,
            speedup_interval=each.speedup_interval,
            passed=len(each.workloads),
            failed=each.failed,
            violations=each.violations,
            specialised=content.standing.tallies[hardware][definition][each.solution].specialised,
        )
        for (hardware, definition), chart in drawn.items()
        for each in chart.solutions
    ]
    measured = {line.name for line in found}
    found += [
        _unmeasured(content, name) for name in content.jobs_by_solution if name not in measured
    ]
    return sorted(found, key=lambda line: (line.definition, line.name, line.hardware or ""))


def _unmeasured(content: Content, name: str) -> ListedSolution:
    solution = content.solutions.get(name)
    jobs = content.jobs_by_solution[name]
    places = ", ".join(sorted({job.row.hardware for job in jobs}))
    how = "interpreted only" if all(job.row.interpreted for job in jobs) else "weak tasks only"
    return ListedSolution(
        name=name,
        definition=solution.definition if solution else jobs[0].row.definition,
        author=solution.author if solution else None,
        language=solution.spec.language.value if solution else None,
        hardware=None,
        where=f"{places}: {how}" if jobs else "not measured",
        speedup=None,
        speedup_interval=None,
        passed=0,
        failed=0,
        violations=0,
    )


def builds(solution: Solution | None, jobs: Sequence[RecordedJob]) -> list[CodeVersion]:
    """List the versions of the code that traces name, the newest first."""
    present = solution.hash() if solution else None
    by_code: dict[tuple[str, str], list[RecordedJob]] = {}
    for job in jobs:
        by_code.setdefault((job.row.solution_hash or "", job.row.hardware), []).append(job)
    found = [
        CodeVersion(
            code=code,
            is_present=code == present,
            hardware=hardware,
            statuses=dict(sorted(Counter(job.row.status for job in group).items())),
            first=minute(min(job.row.timestamp for job in group)),
            last=minute(max(job.row.timestamp for job in group)),
        )
        for (code, hardware), group in by_code.items()
    ]
    return sorted(found, key=lambda build: (build.is_present, build.last), reverse=True)


def jobs_by_hardware(content: Content, jobs: Sequence[RecordedJob]) -> list[JobsOn]:
    """Sort a solution's jobs by hardware and size; failures with the same log are one."""
    found: list[JobsOn] = []
    for hardware in content.hardware:
        here = [job for job in jobs if job.row.hardware == hardware]
        if here:
            here.sort(key=lambda job: (job.row.definition, job.size, job.row.timestamp))
            found_out = ((place, content.left_out(job)) for place, job in enumerate(here))
            left_out = {place: reason for place, reason in found_out if reason}
            found.append(JobsOn(hardware, tuple(here), _failures(here, left_out), left_out))
    return found


def _extra(job: RecordedJob) -> dict[str, Any] | None:
    correctness = job.evaluation.correctness
    return correctness.extra if correctness else None


def _failures(jobs: Sequence[RecordedJob], left_out: Mapping[int, str]) -> tuple[FailureGroup, ...]:
    groups: dict[tuple[str | None, str, str], list[RecordedJob]] = {}
    for place, job in enumerate(jobs):
        if not job.row.is_passed:
            key = (left_out.get(place), job.row.status, job.evaluation.log)
            groups.setdefault(key, []).append(job)
    return tuple(
        FailureGroup(
            status,
            readable_log(log),
            tuple(dict.fromkeys(each for job in group for each in job.violations)),
            tuple(group),
            reason,
            tuple(cause_lines(diagnosis_in(_extra(group[0])))),
        )
        for (reason, status, log), group in sorted(
            groups.items(), key=lambda each: each[0][0] or ""
        )
    )
