"""What became of many models that were taken apart."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

FAILED = "failed"


@dataclass(frozen=True, slots=True)
class BatchRow:
    """What became of one file; without a `fault` it was taken apart."""

    problem: str
    file: str
    directory: str
    classified: str = FAILED
    kernels: int = 0
    different_kernels: int = 0
    fusions: int = 0
    layers: int = 0
    operations: int = 0
    coverage: float = 0.0
    verified: str = ""
    equality: str = ""
    shrunk: str | None = None
    front_end: str = ""
    findings: tuple[str, ...] = ()
    cpu_seconds: float | None = None
    seconds: float = 0.0
    """From start to end; what others did at the same time counts in."""
    peak_memory_bytes: int = 0
    definitions: int = 0
    has_dataset: bool = False
    fault: str = ""
    is_ours: bool = False
    """Whether the fault is this program's and not the file's."""

    @property
    def is_good(self) -> bool:
        """Whether it was taken apart, and nothing speaks against it."""
        return not self.fault and self.verified != "fail" and self.coverage >= 1.0


@dataclass(frozen=True, slots=True)
class MergeReport:
    """What a dictionary of kernels got from these models."""

    dataset: str
    models: int
    added: int
    shared: int
    workloads: int


@dataclass(frozen=True, slots=True)
class BatchReport:
    """What became of all files, in their order."""

    output: str
    rows: tuple[BatchRow, ...]
    resumed: int
    seconds: float
    merged: MergeReport | None = None
    totals: dict[str, float] = field(default_factory=dict)


def totals_of(rows: Sequence[BatchRow]) -> dict[str, float]:
    """Count what is worth counting over all files."""
    taken_apart = [row for row in rows if not row.fault]
    times_s = [row.cpu_seconds for row in taken_apart if row.cpu_seconds is not None]
    return {
        "files": len(rows),
        "failed": len(rows) - len(taken_apart),
        "verified": sum(row.verified == "pass" for row in taken_apart),
        "bit_equal": sum(row.equality == "bit-equal" for row in taken_apart),
        "not_verified": sum(row.verified == "fail" for row in taken_apart),
        "fully_covered": sum(row.coverage >= 1.0 for row in taken_apart),
        "kernels": sum(row.kernels for row in taken_apart),
        "mean_cpu_seconds": sum(times_s) / len(times_s) if times_s else 0.0,
        "most_memory_bytes": max((row.peak_memory_bytes for row in taken_apart), default=0),
    }
