"""How one entry ended, and whether that is what the docs say."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from flashinfer_bench.attacks.suite import NOT_STOPPED, PASSED, PREVENTED, VISIBLE, Entry
from flashinfer_bench.report.tables import first_line

if TYPE_CHECKING:
    from flashinfer_bench.data import Evaluation, Trace
    from flashinfer_bench.report.attacks import AttackRow

LOOT = "loot: "
"""A thief that got what it wanted prints a line that begins with this."""
NO_LOOT = "no loot: "
NOTE = "note:"
"""Before the code of a note."""
MOST_SPEEDUP = 1.5
"""A prevented attack does the reference's own work; with quick settings its speedup stays below this."""
VISIBLE_RATIO = 10.0
"""`precision.ratio` from which a loss of precision is plain to see."""
WEAK_SANDBOXES = frozenset({"off", "limits", "partial"})
"""Isolation levels that leave something open; `partial`: this kernel lacks a measure."""


@dataclass(frozen=True, slots=True)
class Ending:
    """What a job left behind: an evaluation, or why there is none."""

    evaluation: Evaluation | None = None
    skipped: str | None = None
    broke: str | None = None
    """The engine or the dataset took the blame: worse than any verdict."""

    @property
    def violations(self) -> tuple[tuple[str, str], ...]:
        """Codes and evidence of broken rules."""
        return tuple((each["code"], each["evidence"]) for each in self._extra.get("violations", ()))

    @property
    def speedup(self) -> float | None:
        """Speedup on record."""
        performance = self.evaluation.performance if self.evaluation else None
        return None if performance is None else performance.speedup_factor

    @property
    def loot(self) -> str | None:
        """What a thief says it got."""
        return self._said(LOOT)

    @property
    def text(self) -> str:
        """Status and codes in a few words."""
        if self.broke is not None:
            return "ENGINE FAULT"
        if self.evaluation is None:
            return "skipped"
        codes = ", ".join(dict.fromkeys(code for code, _ in self.violations))
        if codes:
            return f"{self.evaluation.status}: {codes}"
        if self.loot:
            return f"{self.evaluation.status}, with loot"
        return str(self.evaluation.status)

    @property
    def evidence(self) -> str:
        """What was seen, in one line."""
        if self.broke is not None:
            return _last_line(self.broke)
        if self.evaluation is None:
            return self.skipped or ""
        if self.violations:
            return self.violations[0][1]
        if self.evaluation.status == PASSED:
            said = self.loot or self._said(NO_LOOT)
            speed = "" if self.speedup is None else f"speedup {self.speedup:.2f}"
            return ": ".join(part for part in (speed, said) if part)
        is_crash = not self.evaluation.status.startswith("INCORRECT")
        return _last_line(self.evaluation.log) if is_crash else first_line(self.evaluation.log)

    def fits(self, expected: tuple[str, ...]) -> bool:
        """Tell whether this is one of the ways in which it may end."""
        return any(self._is(word) for word in expected)

    def _is(self, word: str) -> bool:
        if self.evaluation is None:
            return False
        is_passed = self.evaluation.status == PASSED
        if word == PASSED:
            return is_passed and not self.violations
        if word.isupper():
            return self.evaluation.status == word
        if word == PREVENTED:
            return is_passed and not self._is_surely_quick and self.loot is None
        if word == VISIBLE:
            ratio = (self._extra.get("precision") or {}).get("ratio", 0.0)
            return is_passed and ratio >= VISIBLE_RATIO
        if word == NOT_STOPPED:
            return is_passed
        if word.startswith(NOTE):
            return is_passed and word.removeprefix(NOTE) in {n.code for n in self.evaluation.notes}
        return word in {code for code, _ in self.violations}

    @property
    def _is_surely_quick(self) -> bool:
        """Whether all of the speedup's interval lies above what honest work of this kind shows."""
        performance = self.evaluation.performance if self.evaluation else None
        if performance is None or performance.speedup_factor is None:
            return False
        interval = performance.speedup_interval or (performance.speedup_factor,) * 2
        return interval[0] > MOST_SPEEDUP

    @property
    def _extra(self) -> dict[str, Any]:
        correctness = self.evaluation.correctness if self.evaluation else None
        return (correctness.extra if correctness else None) or {}

    def _said(self, start: str) -> str | None:
        log = self.evaluation.log if self.evaluation else ""
        return next((line for line in log.splitlines() if line.startswith(start)), None)


def ending_of(trace: Trace | None) -> Ending:
    """Take what a trace says."""
    if trace is None or trace.evaluation is None:
        return Ending(broke="the job left no trace")
    return Ending(evaluation=trace.evaluation)


def ended(
    row: AttackRow, entry: Entry, ending: Ending, *, sandbox: str, total: int = 1
) -> AttackRow:
    """Fill in how it ended under an isolation level."""
    if ending.skipped is not None:
        return replace(row, not_run_because=ending.skipped)
    as_documented = ending.fits(row.expected)
    if not as_documented and entry.needs_sandbox and sandbox in WEAK_SANDBOXES:
        reason = f"only a sandbox stops it, and {sandbox!r} was all there was"
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
