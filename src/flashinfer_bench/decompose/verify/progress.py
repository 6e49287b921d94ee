"""One verification under way: what was found, and what was looked at."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from flashinfer_bench.decompose.grouping import Overrides
    from flashinfer_bench.decompose.model_file import ModelSource
    from flashinfer_bench.decompose.verify.files import NodeFile
    from flashinfer_bench.decompose.verify.findings import Coverage, Violation


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
