"""What the first page shows: what was measured, where and when, and what is best."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.report.best import Best
    from flashinfer_bench.report.page.content import Content, RecordedJob
    from flashinfer_bench.report.page.definitions import Definitions

_MOST_RUNS = 50


@dataclass(frozen=True, slots=True)
class Machine:
    """What was measured on one kind of hardware."""

    hardware: str
    devices: str
    software: str
    definitions: int
    solutions: int
    traces: int
    passed: int
    failed: int
    violations: int
    first: str
    last: str
    best: tuple[Best, ...]
    reasons: dict[str, str]
    """Definitions without a best solution, and why."""


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What one run added."""

    name: str
    hardware: str
    first: str
    last: str
    traces: int
    passed: int
    failed: int
    violations: int


def machines(content: Content, definitions: Definitions) -> list[Machine]:
    """Sum up each kind of hardware."""
    by_hardware: dict[str, list[RecordedJob]] = {name: [] for name in content.hardware}
    for jobs in content.jobs.values():
        for job in jobs:
            by_hardware[job.row.hardware].append(job)
    return [_machine(name, jobs, definitions) for name, jobs in by_hardware.items()]


def _machine(hardware: str, jobs: Sequence[RecordedJob], definitions: Definitions) -> Machine:
    passed = sum(job.row.is_passed for job in jobs)
    times = [job.row.timestamp for job in jobs]
    newest = max(jobs, key=lambda job: job.row.timestamp).evaluation.environment
    return Machine(
        hardware=hardware,
        devices=_devices(jobs),
        software=", ".join(
            f"{name} {newest.libs[name]}"
            for name in ("torch", "cuda", "triton")
            if name in newest.libs
        ),
        definitions=len({job.row.definition for job in jobs}),
        solutions=len({job.row.solution for job in jobs}),
        traces=len(jobs),
        passed=passed,
        failed=len(jobs) - passed,
        violations=sum(job.row.violation_count > 0 for job in jobs),
        first=day(min(times)),
        last=day(max(times)),
        best=tuple(each for (where, _), each in definitions.best.items() if where == hardware),
        reasons={
            name: why for (where, name), why in definitions.reasons.items() if where == hardware
        },
    )


def _devices(jobs: Sequence[RecordedJob]) -> str:
    found: Counter[str] = Counter()
    for job in jobs:
        device = job.evaluation.environment.device
        if device is not None:
            driver = f", driver {device.driver}" if device.driver else ""
            found[f"{device.name}{driver}"] += 1
    return "; ".join(name for name, _ in found.most_common(3))


def runs(content: Content) -> list[RunSummary]:
    """List runs, the newest first."""
    by_run: dict[tuple[str, str], list[RecordedJob]] = {}
    for jobs in content.jobs.values():
        for job in jobs:
            if job.row.run_id is not None:
                by_run.setdefault((job.row.run_id, job.row.hardware), []).append(job)
    found = [_run(hardware, jobs) for (_, hardware), jobs in by_run.items()]
    return sorted(found, key=lambda run: (run.last, run.name), reverse=True)[:_MOST_RUNS]


def _run(hardware: str, jobs: Sequence[RecordedJob]) -> RunSummary:
    passed = sum(job.row.is_passed for job in jobs)
    times = [job.row.timestamp for job in jobs]
    return RunSummary(
        name=jobs[0].run_name,
        hardware=hardware,
        first=minute(min(times)),
        last=minute(max(times)),
        traces=len(jobs),
        passed=passed,
        failed=len(jobs) - passed,
        violations=sum(job.row.violation_count > 0 for job in jobs),
    )


def day(timestamp: str) -> str:
    """Give the day of an ISO-8601 time.

    >>> day("2026-11-20T14:03:24.591993+00:00")
    '2026-11-20'
    """
    return timestamp[:10]


def utc_minute(timestamp: str) -> str:
    """Give day and minute of an ISO-8601 time in UTC; what is none stays.

    >>> utc_minute("2026-11-20T14:03:24+02:00"), utc_minute("yesterday")
    ('2026-11-20 12:03', 'yesterday')
    """
    try:
        found = datetime.fromisoformat(timestamp)
    except ValueError:
        return timestamp
    return f"{found.astimezone(UTC) if found.tzinfo else found:%Y-%m-%d %H:%M}"


def minute(timestamp: str) -> str:
    """Give day and minute of an ISO-8601 time; its zone stays.

    >>> minute("2026-11-20T14:03:24.591993+00:00")
    '2026-11-20 14:03 UTC'
    """
    zone = timestamp[19:].lstrip(".0123456789")
    zone = " UTC" if zone in {"Z", "+00:00"} else f" {zone}" if zone else ""
    return f"{timestamp[:10]} {timestamp[11:16]}{zone}".strip()
