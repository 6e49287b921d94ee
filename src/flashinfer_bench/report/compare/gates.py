"""What a comparison must not show: conditions in a small grammar, and what breaks them.

::

    gate := "slower" ">" NUMBER "%"   a job, or all of one hardware together, is slower by more than this
          | "failed"                  a job fails that did not fail on the old side
          | "missing"                 a job of the old side has no trace on the new one
          | "undecided"               a job's interval allows no verdict

`slower` asks many intervals at once, and of a hundred 95% intervals some lie off by chance. So each is taken at a
confidence of 1 - 5% / intervals (Bonferroni): where nothing changed, the gate breaks in 5% of comparisons at most.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashinfer_bench.errors import UsageError
from flashinfer_bench.report.compare.result import Change
from flashinfer_bench.stats.between_runs import scaled, student_quantile
from flashinfer_bench.stats.intervals import CONFIDENCE
from flashinfer_bench.stats.verdicts import Verdict, verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from flashinfer_bench.report.compare.result import (
        ChangedJob,
        ComparedJob,
        ComparisonReport,
        JobIdentity,
        Overall,
    )

_SLOWER = re.compile(r"slower\s*>\s*([0-9]+(?:\.[0-9]+)?)\s*%")
_WORDS = frozenset({"failed", "missing", "undecided"})
_OVERALL = "all jobs together"


@dataclass(frozen=True, slots=True)
class Gate:
    """One condition."""

    text: str
    word: str
    share: float = 0.0
    """For `slower`: how much longer the new side may take."""


@dataclass(frozen=True, slots=True)
class Breach:
    """One job that breaks a gate; no place where it is not about one job."""

    place: JobIdentity | None
    what: str


@dataclass(frozen=True, slots=True)
class GateResult:
    """How a gate ended."""

    gate: str
    holds: bool
    breaches: tuple[Breach, ...]


def parse_gate(text: str) -> Gate:
    """Read a gate.

    >>> parse_gate("slower > 2.5%")
    Gate(text='slower>2.5%', word='slower', share=0.025)
    """
    word = text.strip().lower()
    if word in _WORDS:
        return Gate(word, word)
    found = _SLOWER.fullmatch(word)
    if found is None:
        raise UsageError(
            f"{text!r} is no gate: write slower>3% (any percentage), failed, missing or undecided"
        )
    return Gate(f"slower>{found[1]}%", "slower", float(found[1]) / 100)


def check_gates(comparison: ComparisonReport, gates: Sequence[Gate]) -> tuple[GateResult, ...]:
    """Check every gate; one that found nothing to look at is broken, for it proves nothing."""
    results = []
    for gate in gates:
        breaches = _breaches(comparison, gate)
        results.append(GateResult(gate.text, not breaches, breaches))
    return tuple(results)


def _breaches(comparison: ComparisonReport, gate: Gate) -> tuple[Breach, ...]:
    if gate.word == "failed":
        return _changed(comparison, _is_new_failure)
    if gate.word == "missing":
        return _changed(comparison, lambda job: job.change is Change.MISSING)
    if not comparison.jobs:
        return (Breach(None, "nothing was compared: no job has a time on both sides"),)
    if gate.word == "undecided":
        return tuple(
            Breach(job.place, job.reason)
            for job in comparison.jobs
            if job.verdict is Verdict.UNDECIDED
        )
    if all(job.interval is None for job in comparison.jobs):
        return (Breach(None, "nothing was compared: no job has an interval"),)
    return _slower(comparison, gate.share)


def _slower(comparison: ComparisonReport, share: float) -> tuple[Breach, ...]:
    several = [each for each in comparison.overall if sum(each.verdicts.values()) > 1]
    asked = len(comparison.jobs) + len(several)
    found = [
        Breach(job.place, slower_text(job.ratio))
        for job in comparison.jobs
        if _is_slower(job, share, asked)
    ]
    for each in comparison.overall:
        if _is_slower(each, share, asked):
            where = f"{_OVERALL} on {each.hardware}" if each.hardware else _OVERALL
            found.append(Breach(None, f"{where}: {slower_text(each.ratio)}"))
    return tuple(found)


def _is_slower(found: ComparedJob | Overall, share: float, asked: int) -> bool:
    """Tell whether one of so many intervals, each as much longer as that takes, lies beyond."""
    if found.interval is None or found.ratio is None or found.freedom is None:
        return False
    each, one = (
        student_quantile(confidence, found.freedom)
        for confidence in (1 - (1 - CONFIDENCE) / asked, CONFIDENCE)
    )
    interval = scaled(found.ratio, found.interval, each / one)
    return verdict(interval, threshold=share) is Verdict.SLOWER


def slower_text(ratio: float | None) -> str:
    """Say how much longer the new side takes."""
    return f"takes {1 / ratio - 1:.1%} longer" if ratio else "is slower"


def _changed(
    comparison: ComparisonReport, breaks: Callable[[ChangedJob], bool]
) -> tuple[Breach, ...]:
    return tuple(
        Breach(job.place, f"{job.old_status or 'no trace'} -> {job.new_status or 'no trace'}")
        for job in comparison.changes
        if breaks(job)
    )


def _is_new_failure(job: ChangedJob) -> bool:
    is_new = job.change is Change.NEW and job.new_status != "PASSED"
    return job.change is Change.BROKE or is_new
