"""A compiled binary as a runnable: loaded where it can run, looked into where it cannot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashinfer_bench.compile.runnable import Runnable, RunnableMetadata
from flashinfer_bench.errors import BuildError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from flashinfer_bench.data import Signature, Solution


class NotLoadableError(BuildError):
    """The binary was compiled, and this process cannot load it."""


def metadata_of(
    solution: Solution, signature: Signature, binary: Path, *, build_type: str
) -> RunnableMetadata:
    """Say what was built, and where it lies."""
    facts = {
        "folder": str(binary.parent),
        "entry_symbol": solution.get_entry_symbol(),
        "binary": str(binary),
    }
    return RunnableMetadata.of(solution, signature, build_type=build_type, misc=facts)


def examined(
    load: Callable[[], Runnable],
    solution: Solution,
    metadata: RunnableMetadata,
    require: Callable[[str], None],
) -> Runnable:
    """Check a binary for another machine: load it if that goes, else `require` the names of its functions.

    It may not load here because torch has no CUDA, or a library of the driver is missing.
    """
    try:
        return load()
    except NotLoadableError:
        spec = solution.spec
        for name in filter(None, (solution.get_entry_symbol(), spec.prepare, spec.plan)):
            require(name)
        return Runnable(_nothing, metadata)


def _nothing(*_: object) -> None:
    """Stand where a function would be that cannot be loaded."""
