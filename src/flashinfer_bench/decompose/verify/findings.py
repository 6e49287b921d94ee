"""What a verification of a decomposition found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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
