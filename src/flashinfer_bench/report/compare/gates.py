"""What a comparison must not show: conditions in a small grammar, and what breaks them.

::

    gate := "slower" ">" NUMBER "%"   a job, or all of one hardware together, is slower by more than this
          | "failed"                  a job fails that did not fail on the old side
          | "missing"                 a job of the old side has no trace on the new one
          | "undecided"               a job's interval allows no verdict

`slower` asks many intervals at once, and of a hundred 95% intervals some lie off by chance. So they are asked together
(Benjamini and Hochberg): where nothing changed, the gate breaks in 5% of comparisons at most.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashinfer_bench.errors import UsageError
from flashinfer_bench.report.compare.result import Change, ComparedJob
from flashinfer_bench.stats.student import beyond, discoveries
from flashinfer_bench.stats.verdicts import Verdict, verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from flashinfer_bench.report.compare.result import (
        ChangedJob,
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
    asked: list[ComparedJob | Overall] = [*comparison.jobs, *several]
    probabilities = [_probability(each, share) for each in asked]
    most = discoveries(probabilities)
    return tuple(
        _breach(each)
        for each, probability in zip(asked, probabilities, strict=True)
        if probability <= most and verdict(each.interval, threshold=share) is Verdict.SLOWER
    )


def _probability(found: ComparedJob | Overall, share: float) -> float:
    """Say how probable a ratio so far off is by chance; 1 where nothing tells."""
    if found.interval is None or found.ratio is None or found.freedom is None:
        return 1.0
    return beyond(found.ratio, found.interval, found.freedom, share)


def _breach(found: ComparedJob | Overall) -> Breach:
    if isinstance(found, ComparedJob):
        return Breach(found.place, slower_text(found.ratio))
    where = f"{_OVERALL} on {found.hardware}" if found.hardware else _OVERALL
    return Breach(None, f"{where}: {slower_text(found.ratio)}")


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
