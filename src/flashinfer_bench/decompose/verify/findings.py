"""What a verification of a decomposition is asked, and what it found: by stage, and as a report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pathlib import Path

    from flashinfer_bench.decompose.grouping import Overrides
    from flashinfer_bench.decompose.model_file import ModelSource


Severity = Literal["error", "warning"]
Verdict = Literal["pass", "fail", "not run"]
Executed = Mapping[str, Mapping[str, int]]
"""How many of what was executed fared how: tests of files, wrong kernels, workloads."""


@dataclass(frozen=True, slots=True)
class VerifyRequest:
    """What is verified, and how."""

    folder: Path
    seeds: int
    model: Path | None = None
    """The original's file where it is not in the folder."""
    source: ModelSource | None = None
    """The original where it was no file."""
    memory_limit_bytes: int | None = None
    allow_opaque: bool = False
    """Whether leaves that say why they are kept whole are warnings."""
    overrides: Overrides | None = None
    """What a person asked for: other limits of what a kernel is; it allows opaque leaves."""
    exports: bool = True
    """Whether operations are counted by `torch.export` too; a second or more."""
    may_change: bool = False
    """Whether workloads on which a wrong kernel passes are written anew."""
    quick: bool = False
    """Whether values are compared on a smaller copy only; files' own tests and wrong kernels are left out."""
    exact: bool = False
    """Whether outputs must be equal in every bit."""


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
    executed: Executed = field(default_factory=dict)

    @property
    def exit_code(self) -> int:
        """0 where everything holds, 1 where something does not."""
        return 0 if self.passed else 1


@dataclass(frozen=True, slots=True)
class StageResult:
    """What one stage found; it leaves out what it does not look at."""

    findings: tuple[Violation, ...] = ()
    notes: tuple[str, ...] = ()
    details: Mapping[str, str] = field(default_factory=dict)
    """By rung, what was looked at; a rung without a word was not run."""
    tolerated: tuple[tuple[float, str], ...] = ()
    """Differences that were accepted, each with its place."""
    calls: Mapping[str, int] = field(default_factory=dict)
    coverage: Coverage | None = None
    shrunk: str | None = None
    stopped_on: Literal["", "meta", "values"] = ""
    """What a file failed on, so that what it is part of could not be compared."""
    executed: Executed = field(default_factory=dict)
    allows_opaque: bool = False
    """Whether leaves of several kernels keep the severity that they were found with."""


def joined(*results: StageResult) -> StageResult:
    """Put together what stages found, in their order; a later word about a rung replaces an earlier one."""
    return StageResult(
        tuple(each for one in results for each in one.findings),
        tuple(each for one in results for each in one.notes),
        {rung: words for one in results for rung, words in one.details.items()},
        tuple(each for one in results for each in one.tolerated),
        next((one.calls for one in results if one.calls), {}),
        next((one.coverage for one in results if one.coverage), None),
        next((one.shrunk for one in results if one.shrunk), None),
        next((one.stopped_on for one in results if one.stopped_on), ""),
        {what: counts for one in results for what, counts in one.executed.items()},
        any(one.allows_opaque for one in results),
    )
