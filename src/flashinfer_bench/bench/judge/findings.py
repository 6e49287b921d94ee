"""What was found of one participant in one job: right or wrong, broken rules, what is worth knowing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flashinfer_bench.bench.outcomes import Errors, JobNote, Wrong
from flashinfer_bench.judging import JudgeVerdict
from flashinfer_bench.judging.diagnosis import KEY

if TYPE_CHECKING:
    from collections.abc import Iterator

_LONGEST_EVIDENCE = 500


@dataclass(slots=True)
class Findings:
    """What was found so far."""

    verdict: JudgeVerdict = field(default_factory=lambda: JudgeVerdict(is_accepted=True))
    violations: dict[str, str] = field(default_factory=dict)
    precision: dict[str, float] | None = None
    shares_buffers: bool = False
    """Whether outputs of different calls lie in the same memory."""
    strided_elements: int = 0
    is_repeatable: bool | None = None
    """Whether the same inputs gave the same bits twice; None where nobody looked."""
    unusual: dict[str, str] = field(default_factory=dict)
    """What each family of unusual inputs did."""
    diagnosis: dict[str, Any] | None = None
    """What is wrong with the first wrong call, and the causes suspected, as JSON."""
    unusual_faults: dict[str, str] = field(default_factory=dict)
    """What was wrong, of the families that failed."""

    @property
    def is_good(self) -> bool:
        """Nothing wrong was found so far."""
        return self.verdict.is_accepted and not self.violations

    def report(self, code: str, evidence: str) -> None:
        """Note a violation; of each kind the first one found is told."""
        if len(evidence) > _LONGEST_EVIDENCE:
            evidence = evidence[:_LONGEST_EVIDENCE] + " …"
        self.violations.setdefault(code, evidence)

    def merge(self, verdict: JudgeVerdict) -> None:
        """Take in what a judge said of some calls."""
        self.verdict = self.verdict.merged(verdict)

    def errors(self) -> Errors:
        """Return the largest differences found."""
        found = self.verdict
        extra = found.extra | ({"unusual": self.unusual} if self.unusual else {})
        if self.diagnosis is not None:
            extra |= {KEY: self.diagnosis}
        return Errors(
            found.max_absolute,
            found.max_relative,
            found.matched_ratio,
            self.precision,
            extra,
            self.is_repeatable,
        )

    def notes(self) -> Iterator[JobNote]:
        """Yield what is honest but worth knowing."""
        if self.shares_buffers:
            yield JobNote("reused_buffer", "outputs of different calls lie in the same memory")
        if self.strided_elements:
            yield JobNote("unusual_strides", "an output is not contiguous")
        if self.unusual_faults:
            said = "; ".join(f"{name}: {why}" for name, why in self.unusual_faults.items())
            yield JobNote("unusual_draw", said[:_LONGEST_EVIDENCE])

    def wrong(self, explanation: str, *, participant: str) -> Wrong:
        """Say that this participant lost the job."""
        violations = tuple(JobNote(code, evidence) for code, evidence in self.violations.items())
        notes = tuple(self.notes())
        return Wrong(self.errors(), explanation, violations, notes, participant=participant)
