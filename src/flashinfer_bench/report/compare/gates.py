"""What a comparison must not show: conditions in a small grammar, and what breaks them.

::

    gate := "slower" ">" NUMBER "%"   a job, or all of one hardware together, is slower by more than this
          | "failed"                  a job fails that did not fail on the old side
          | "missing"                 a job of the old side has no trace on the new one
          | "undecided"               a job's interval allows no verdict
          | "changed-definition"      a job is judged by another definition or other tolerances

`slower` asks many intervals at once, and of a hundred 95% intervals some lie off by chance. So they are asked together
(Benjamini and Hochberg): where nothing changed, the gate breaks in 5% of comparisons at most.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashinfer_bench.errors import UsageError
from flashinfer_bench.report.compare.result import SAME_TRACES, Change, ComparedJob
from flashinfer_bench.stats.student import beyond, discoveries
from flashinfer_bench.stats.verdicts import Verdict, verdict
from flashinfer_bench.text.numbers import count_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from flashinfer_bench.report.compare.result import (
        ChangedJob,
        ComparisonReport,
        JobIdentity,
        Overall,
    )

_SLOWER = re.compile(r"slower\s*>\s*([0-9]+(?:\.[0-9]+)?)\s*%")
_CHANGED = "changed-definition"
_OF_TIMES = frozenset({"slower", "undecided"})
_WORDS = frozenset({"failed", "missing", "undecided", _CHANGED})
_OVERALL = "all jobs together"
_UNASKED = "which no gate asks about"


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
            f"{text!r} is no gate: write slower>3% (any percentage), failed, missing, undecided "
            f"or {_CHANGED}"
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
    changes = () if gate.word in _OF_TIMES else comparison.changes
    looked_at: list[ComparedJob | ChangedJob] = [*comparison.jobs, *changes]
    if looked_at and all(job.is_same_trace for job in looked_at):
        return (Breach(None, SAME_TRACES),)
    if gate.word == _CHANGED:
        return _judged_otherwise(looked_at)
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
    return tuple(Breach(job.place, statuses_text(job)) for job in comparison.changes if breaks(job))


def statuses_text(job: ChangedJob) -> str:
    """Say how a job ended on both sides, and why it fails."""
    ended = f"{job.old_status or 'no trace'} -> {job.new_status or 'no trace'}"
    return f"{ended}: {job.reason}" if job.reason else ended


def _judged_otherwise(jobs: Sequence[ComparedJob | ChangedJob]) -> tuple[Breach, ...]:
    if all(job.judged_otherwise is None for job in jobs):
        return (Breach(None, "nothing was compared: no two traces say what judged them"),)
    return tuple(
        Breach(job.place, f"judged by something else: {', '.join(job.judged_otherwise)}")
        for job in jobs
        if job.judged_otherwise
    )


def exit_note(comparison: ComparisonReport, results: Sequence[GateResult]) -> str:
    """Explain why the exit code is 0 though something became worse; nothing where it is 1, or nothing did."""
    if not all(each.holds for each in results):
        return ""
    said = [*_slower_note(comparison, results), *_broke_note(comparison)]
    return f"{'; '.join(said)}: exit code 0, but failed in JUnit" if said else ""


def _slower_note(comparison: ComparisonReport, results: Sequence[GateResult]) -> list[str]:
    jobs = [job for job in comparison.jobs if job.verdict is Verdict.SLOWER]
    together = [each for each in comparison.overall if each.verdict is Verdict.SLOWER]
    if not jobs and not together:
        return []
    who = _OVERALL if not jobs else count_text(len(jobs), "job")
    longest = max((1 / each.ratio - 1 for each in jobs or together if each.ratio), default=0.0)
    shares = [gate.share for each in results if (gate := parse_gate(each.gate)).word == "slower"]
    beyond_gate = f"not for certain beyond the gate's {100 * min(shares, default=0.0):.3g}%"
    up_to = "up to " if len(jobs) > 1 else ""
    return [f"{who} SLOWER by {up_to}{longest:.1%}, {beyond_gate if shares else _UNASKED}"]


def _broke_note(comparison: ComparisonReport) -> list[str]:
    broke = sum(job.change is Change.BROKE for job in comparison.changes)
    return [f"{count_text(broke, 'job')} BROKE, {_UNASKED}"] if broke else []


def _is_new_failure(job: ChangedJob) -> bool:
    is_new = job.change is Change.NEW and job.new_status != "PASSED"
    return job.change is Change.BROKE or is_new
