"""Whether a decomposition, made by anyone, is the model it claims to be."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flashinfer_bench.report.decompose_verify import VerifyReport


def verify_directory(
    directory: Path | str,
    *,
    seeds: int = 2,
    model: Path | str | None = None,
    memory_limit_bytes: int | None = None,
) -> VerifyReport:
    """Verify a decomposition here and now; its code and the original's are run in this process.

    `model`: the original's file where it is not in the folder. Raises `UsageError` for a folder without a tree or an
    original that cannot be run.
    """
    from flashinfer_bench.decompose.verify.ladder import climb  # noqa: PLC0415  # imports torch

    return climb(
        Path(directory),
        seeds=seeds,
        model=Path(model) if model else None,
        memory_limit_bytes=memory_limit_bytes,
    )
