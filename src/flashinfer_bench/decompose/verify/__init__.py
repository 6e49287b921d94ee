"""Whether a decomposition, made by anyone, is the model it claims to be."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from flashinfer_bench.errors import UsageError

if TYPE_CHECKING:
    from flashinfer_bench.decompose.grouping import Overrides
    from flashinfer_bench.decompose.model_file import ModelSource
    from flashinfer_bench.decompose.verify.findings import VerifyReport


class CannotJudgeError(UsageError):
    """Nothing can be said about a decomposition, neither that it is its original nor that it is not."""

    def __init__(self, folder: Path, reason: str) -> None:
        super().__init__(f"{folder}: cannot be judged because {reason}")


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
    may_change: bool = False,
    quick: bool = False,
    exact: bool = False,
) -> VerifyReport:
    """Verify a decomposition here and now; its code and the original's are run in this process.

    `model`: the original's file where it is not in the folder; `source`: the original where it was no file.
    `allow_opaque`: leaves that say why they are kept whole are warnings. `overrides`: what was asked for; it says what
    a kernel is, and allows opaque leaves. `may_change`: workloads of the dataset on which a wrong kernel passes get
    inputs on which it fails, or are marked. `quick`: values are compared on a smaller copy only, without files' own
    tests and wrong kernels. `exact`: what is within tolerance is an error. Raises `UsageError` for a folder without a
    tree or an original that cannot be run, `CannotJudgeError` for a published one without its original, `TooBigError`
    where memory does not suffice even for a smaller copy.
    """
    from flashinfer_bench.decompose.verify.findings import VerifyRequest  # noqa: PLC0415
    from flashinfer_bench.decompose.verify.stages import verify_folder  # noqa: PLC0415  # imports torch

    return verify_folder(
        VerifyRequest(
            Path(directory),
            seeds,
            model=Path(model) if model else None,
            source=source,
            memory_limit_bytes=memory_limit_bytes,
            allow_opaque=allow_opaque,
            overrides=overrides,
            may_change=may_change,
            quick=quick,
            exact=exact,
        )
    )
