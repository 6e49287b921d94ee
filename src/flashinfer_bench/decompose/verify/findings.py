"""What a verification of a decomposition found: so far, and as a report."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from flashinfer_bench.decompose.grouping import Overrides
    from flashinfer_bench.decompose.model_file import ModelSource
    from flashinfer_bench.decompose.verify.files import NodeFile


Severity = Literal["error", "warning"]
Verdict = Literal["pass", "fail", "not run"]


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing that does not hold: where, which rule, and what to do."""

    file: str
    """Path from the decomposition's folder."""
    code: str
    message: str
    remedy: str
    severity: Severity = "error"
    node: str | None = None
    tensor: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Rung:
    """One stage of the verification: what it claims, and whether that holds."""

    name: str
    verdict: Verdict
    detail: str


@dataclass(frozen=True, slots=True)
class Coverage:
    """Where the operations of the original's run are."""

    operations: int
    in_leaves: int
    plumbing: int
    dropped: int
    """Side effects and operations that no output needs."""
    missing: tuple[str, ...]
    """In no leaf although they compute something."""
    repeated: tuple[str, ...]
    """In more than one leaf."""

    @property
    def share(self) -> float:
        """The part of all operations that is accounted for."""
        return 1 - len(self.missing) / self.operations if self.operations else 1.0


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """Whether a decomposition is its original, and how that was found out."""

    model: str
    folder: str
    passed: bool
    rungs: tuple[Rung, ...]
    findings: tuple[Violation, ...]
    seeds: int
    equality: str
    """`bit-equal`, or `within tolerance` with the largest relative error met; empty if nothing ran."""
    coverage: Coverage | None
    nodes: int
    leaf_calls: int
    shrunk: str | None
    """Which sizes were halved so that the model fits into memory."""
    notes: tuple[str, ...]
    elapsed_s: float

    @property
    def exit_code(self) -> int:
        """0 where everything holds, 1 where something does not."""
        return 0 if self.passed else 1


@dataclass
class Verification:
    """What a verification has found so far, and what it was asked for."""

    folder: Path
    seeds: int
    source: ModelSource | None = None
    """The original where it is not the file in the folder."""
    memory_limit_bytes: int | None = None
    allows_opaque: bool = False
    """Whether leaves may be kept whole: then they are warnings."""
    overrides: Overrides | None = None
    """What a person asked for: other limits of what a kernel is."""
    exports: bool = True
    """Whether operations are counted by `torch.export` too; a second or more."""
    exported: str = ""
    """How the counts compare."""
    findings: list[Violation] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    details: dict[str, str] = field(default_factory=dict)
    """By stage, what was looked at; a stage without a word was not run."""
    steps: dict[str, list[NodeFile]] = field(default_factory=dict)
    """By node, the files of its steps."""
    coverage: Coverage | None = None
    calls: Counter[str] = field(default_factory=Counter)
    worst: float = 0.0
    worst_at: str = ""
    is_compared: bool = False
    shrunk: str | None = None

    def report(self, finding: Violation) -> None:
        """Keep a finding once; a leaf that was kept whole is an error unless it was asked for."""
        if finding.code == "GRAPH-kernel" and not self.allows_opaque:
            finding = replace(finding, severity="error")
        if finding not in self.findings:
            self.findings.append(finding)

    def report_all(self, findings: Iterable[Violation]) -> None:
        """Keep findings."""
        for each in findings:
            self.report(each)

    def tolerate(self, apart: float, where: str) -> None:
        """Remember the largest difference that was accepted, and where."""
        if apart > self.worst:
            self.worst, self.worst_at = apart, where

    @property
    def has_failed(self) -> bool:
        """Whether anything does not hold."""
        return any(each.severity == "error" for each in self.findings)
