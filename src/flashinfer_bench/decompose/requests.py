"""What is asked about one model's file, as plain data: the side that asks has no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from flashinfer_bench.decompose.ir import LEVELS, Level

if TYPE_CHECKING:
    from pathlib import Path

Emit = Literal["kernels", "fusions", "layers", "all"]

_LEVELS_BY_EMIT: dict[Emit, tuple[Level, ...]] = {
    "kernels": LEVELS[:1],
    "fusions": LEVELS[:2],
    "layers": LEVELS[:3],
    "all": LEVELS,
}


@dataclass(frozen=True, slots=True)
class DecomposeRequest:
    """Take one file apart and write what comes of it."""

    file: Path
    directory: Path
    """Where the decomposition goes; the folder itself."""
    emit: Emit = "kernels"
    """Up to which level pieces become definitions of the dataset."""
    is_verified: bool = True
    overrides: Path | None = None
    seeds: int = 2
    memory_limit_bytes: int | None = None
    """What verification may take; a larger model is verified on a smaller copy, and the report says so."""

    @property
    def levels(self) -> tuple[Level, ...]:
        """Levels whose pieces become definitions."""
        return _LEVELS_BY_EMIT[self.emit]
