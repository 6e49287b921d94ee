"""Whether a decomposition, made by anyone, is the model it claims to be."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from flashinfer_bench.errors import UsageError

if TYPE_CHECKING:
    from flashinfer_bench.decompose.grouping import Overrides
    from flashinfer_bench.decompose.model_file import ModelSource
    from flashinfer_bench.decompose.verify.findings import VerifyReport


class TooBigError(UsageError):
    """A model does not fit into the memory it is given, not even with a smaller batch."""


def verify_directory(
    directory: Path | str,
    *,
    seeds: int = 2,
    model: Path | str | None = None,
    source: ModelSource | None = None,
    memory_limit_bytes: int | None = None,
    allow_opaque: bool = False,
    overrides: Overrides | None = None,
) -> VerifyReport:
    """Verify a decomposition here and now; its code and the original's are run in this process.

    `model`: the original's file where it is not in the folder; `source`: the original where it was no file.
    `allow_opaque`: leaves that say why they are kept whole are warnings. `overrides`: what was asked for; it says what
    a kernel is, and allows opaque leaves. Raises `UsageError` for a folder without a tree or an original that cannot be
    run, `TooBigError` where memory does not suffice even for a smaller copy.
    """
    from flashinfer_bench.decompose.verify.stages import verify_folder  # noqa: PLC0415  # imports torch

    return verify_folder(
        Path(directory),
        seeds=seeds,
        model=Path(model) if model else None,
        source=source,
        memory_limit_bytes=memory_limit_bytes,
        allow_opaque=allow_opaque,
        overrides=overrides,
    )
