"""How one entry ended, and whether that is what the docs say."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from flashinfer_bench.attacks.suite import NOT_STOPPED, PASSED, PREVENTED, TOLD, VISIBLE, Entry
from flashinfer_bench.bench.outcomes import DatasetFault, Skipped
from flashinfer_bench.bench.parent.children_clock import why_not_counted
from flashinfer_bench.bench.record import status_and_log, violations_of
from flashinfer_bench.bench.tools.ab import Ended, Round
from flashinfer_bench.stats.verdicts import Verdict, ratio_of
from flashinfer_bench.text.tables import first_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.attacks.results import AttackRow
    from flashinfer_bench.bench.benchmark import Step
    from flashinfer_bench.data import Evaluation, Performance, Trace
    from flashinfer_bench.stats.verdicts import Ratio

LOOT = "loot: "
"""A thief that got what it wanted prints a line that begins with this."""
NO_LOOT = "no loot: "
NOTE = "note:"
"""Before the code of a note."""
VISIBLE_RATIO = 10.0
"""`precision.ratio` from which a loss of precision is plain to see."""
WEAK_SANDBOXES = frozenset({"off", "limits", "partial"})
"""Isolation levels that leave something open; `partial`: this kernel lacks a measure."""


_FACTS = ("clock", "latency_kind", "is_cold", "phases")
"""What an attack and its honest twin have in common, if neither forges it."""


@dataclass(frozen=True, slots=True)
class Rounds:
    """How an attack did in rounds of `ab` against its honest twin."""

    ratio: Ratio | None
    status: str = PASSED
    codes: tuple[str, ...] = ()
    log: str = ""


@dataclass(frozen=True, slots=True)
class Ending:
    """What a job left behind: an evaluation, or why there is none."""

    evaluation: Evaluation | None = None
    workload: str = ""
    """Its uuid."""
    rounds: Rounds | None = None
    skipped: str | None = None
    was_skipped_by_itself: bool = False
    """Whether it was skipped for what its own process said."""
    broke: str | None = None
    """The engine or the dataset took the blame: worse than any verdict."""
    gain: str | None = None
    """What it has that its honest twin beside it has not; `None` if nothing."""
    is_told: bool = False
    """Whether the trace says that so much more work per call than the twin's could lie outside of the reported time."""

    @property
    def status(self) -> str | None:
        """How it ended, in the words of a trace; `None` where there is none."""
        if self.rounds is not None:
            return self.rounds.status
        return None if self.evaluation is None else str(self.evaluation.status)

    @property
    def violations(self) -> tuple[tuple[str, str], ...]:
        """Codes and evidence of broken rules."""
        if self.rounds is not None:
            return tuple((code, self.rounds.log) for code in self.rounds.codes)
        return tuple((each["code"], each["evidence"]) for each in self._extra.get("violations", ()))

    @property
    def speedup(self) -> float | None:
        """Speedup on record."""
        return None if self._performance is None else self._performance.speedup_factor

    @property
    def loot(self) -> str | None:
        """What a thief says it got."""
        return self._said(LOOT)

    @property
    def text(self) -> str:
        """Status and codes in a few words."""
        if self.broke is not None:
            return "ENGINE FAULT"
        if self.status is None:
            return "skipped"
        codes = ", ".join(dict.fromkeys(code for code, _ in self.violations))
        if codes:
            return f"{self.status}: {codes}"
        if self.gain:
            return f"{self.status}, with a gain"
        if self.loot:
            return f"{self.status}, with loot"
        return self.status

    @property
    def evidence(self) -> str:
        """What was seen, in one line."""
        if self.broke is not None:
            return _last_line(self.broke)
        if self.status is None:
            return self.skipped or ""
        if self.violations:
            return self.violations[0][1]
        if self.status == PASSED:
            said = self.loot or self._said(NO_LOOT)
            speed = "" if self.speedup is None else f"speedup {self.speedup:.2f}"
            return ": ".join(part for part in (speed, self.gain or "", said or "") if part)
        is_crash = not self.status.startswith("INCORRECT")
        return _last_line(self._log) if is_crash else first_line(self._log)

    def fits(self, expected: tuple[str, ...]) -> bool:
        """Tell whether this is one of the ways in which it may end."""
        return any(self._is(word) for word in expected)

    def has_won_over(self, twin: Ending) -> str | None:
        """Say what this has that its honest twin, played beside it, has not: all of the interval, or other facts."""
        mine, its = self._performance, twin._performance
        if mine is None or its is None:
            return None
        mine_interval, its_interval = mine.speedup_interval, its.speedup_interval
        if mine_interval and its_interval and mine_interval[0] > its_interval[1]:
            least, most = mine_interval[0] / its_interval[1], mine_interval[1] / its_interval[0]
            return f"{least:.3g} to {most:.3g} times as fast as its honest twin"
        forged = [name for name in _FACTS if _fact(mine, name) != _fact(its, name)]
        return f"other {', '.join(forged)} than its honest twin" if forged else None

    def tells_of(self, twin: Ending) -> bool:
        """Tell whether the reported time and what the trace says could lie outside of it make up the twin's time."""
        mine, its = self._performance, twin._performance
        if mine is None or its is None or mine.unaccounted_ms is None:
            return False
        return mine.latency_ms + mine.unaccounted_ms >= its.latency_ms

    def _is(self, word: str) -> bool:
        if self.status is None:
            return False
        is_passed = self.status == PASSED
        if word == PASSED:
            return is_passed and not self.violations
        if word.isupper():
            return self.status == word
        if word == PREVENTED:
            return is_passed and self.gain is None and self.loot is None
        if word == VISIBLE:
            ratio = (self._extra.get("precision") or {}).get("ratio", 0.0)
            return is_passed and ratio >= VISIBLE_RATIO
        if word == TOLD:
            return is_passed and self.is_told and self.loot is None
        if word == NOT_STOPPED:  # being stopped for once is no fault
            return True
        if word.startswith(NOTE):
            notes = self.evaluation.notes if self.evaluation else ()
            return is_passed and word.removeprefix(NOTE) in {note.code for note in notes}
        return word in {code for code, _ in self.violations}

    @property
    def _performance(self) -> Performance | None:
        return self.evaluation.performance if self.evaluation else None

    @property
    def _extra(self) -> dict[str, Any]:
        correctness = self.evaluation.correctness if self.evaluation else None
        return (correctness.extra if correctness else None) or {}

    @property
    def _log(self) -> str:
        if self.rounds is not None:
            return self.rounds.log
        return self.evaluation.log if self.evaluation else ""

    def _said(self, start: str) -> str | None:
        return next((line for line in self._log.splitlines() if line.startswith(start)), None)


def _fact(performance: Performance, name: str) -> object:
    clock = performance.clock
    match name:
        case "clock":
            return clock and (clock.name, clock.version)
        case "phases":
            return [each is None for each in (performance.prepare_ms, performance.plan_ms)]
        case _:
            return getattr(performance, name)


def ending_of_step(step: Step) -> Ending:
    """Take how one job ended."""
    match step.outcome:
        case Skipped(reason=reason):
            return Ending(skipped=reason, was_skipped_by_itself=True)
        case DatasetFault(explanation=explanation):
            return Ending(broke=f"the dataset was blamed: {explanation}")
        case _:
            return replace(ending_of(step.trace), workload=step.job.workload.uuid)


def ending_of(trace: Trace | None) -> Ending:
    """Take what a trace says."""
    if trace is None or trace.evaluation is None:
        return Ending(broke="the job left no trace")
    return Ending(evaluation=trace.evaluation)


def ending_of_rounds(steps: Sequence[Round | Ended]) -> Ending:
    """Take how rounds of `ab` ended for the new one; the old one is its honest twin."""
    for step in steps:
        if not isinstance(step, Ended):
            continue
        if step.whose != "new":
            return Ending(broke=f"the {step.whose} one was blamed: {step.outcome}")
        status, log = status_and_log(step.outcome)
        if status is None:
            return Ending(skipped=log or str(step.outcome), was_skipped_by_itself=True)
        codes = tuple(violations_of(step.outcome))
        return Ending(rounds=Rounds(None, str(status), codes, log))
    ratio = ratio_of([step.ratios for step in steps if isinstance(step, Round)])
    gain = None
    if ratio.verdict is Verdict.FASTER and ratio.interval is not None:
        low, high = ratio.interval
        gain = f"{low:.3g} to {high:.3g} times as fast as its honest twin"
    return Ending(rounds=Rounds(ratio), gain=gain)


def ended(
    row: AttackRow, entry: Entry, ending: Ending, *, sandbox: str, total: int = 1
) -> AttackRow:
    """Fill in how it ended under an isolation level."""
    has_dodged = ending.was_skipped_by_itself and entry.is_hostile and entry.language == "python"
    if ending.skipped is not None and not has_dodged:
        return replace(row, not_run_because=ending.skipped)
    as_documented = ending.fits(row.expected)
    if not as_documented and entry.needs_sandbox and sandbox in WEAK_SANDBOXES:
        reason = f"only a sandbox stops it, and {sandbox!r} was all there was"
        return replace(row, not_run_because=reason)
    if not as_documented and entry.needs_counters and (refused := why_not_counted()) is not None:
        reason = f"only counters of the kernel stop it, and it gave none: {refused}"
        return replace(row, not_run_because=reason)
    return replace(
        row,
        got=ending.text if total == 1 else f"{ending.text} (of {total} runs)",
        evidence=ending.evidence,
        as_documented=as_documented,
        is_stopped=_is_stopped(row, ending) if entry.is_hostile else None,
    )


def _is_stopped(row: AttackRow, ending: Ending) -> bool:
    return ending.fits(tuple(word for word in row.expected if word != NOT_STOPPED))


def _last_line(log: str) -> str:
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return lines[-1] if lines else ""
