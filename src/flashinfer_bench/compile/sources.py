"""A solution's sources as files on disk, and a definition's reference as a solution."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashinfer_bench.data import (
    BuildSpec,
    Definition,
    Solution,
    SourceFile,
    SupportedLanguages,
)
from flashinfer_bench.errors import BuildError

if TYPE_CHECKING:
    from pathlib import Path


def write_sources(solution: Solution, folder: Path) -> None:
    """Write every source file of `solution` under `folder`."""
    for source in solution.sources:
        path = folder / source.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source.content, encoding="utf-8", newline="")


def require_entry_suffix(solution: Solution, suffixes: tuple[str, ...]) -> None:
    """Raise unless the entry point lies in a file that the builder can take."""
    entry = solution.get_entry_path()
    if entry.suffix not in suffixes:
        message = (
            f"solution {solution.name!r}: the entry file of a {solution.spec.language} solution "
            f"must end in {' or '.join(suffixes)}, not {entry.name!r}"
        )
        raise BuildError(message)


def reference_solution(definition: Definition) -> Solution:
    """Wrap a definition's reference as a solution: `main.py::run`, value-returning."""
    return Solution(
        name=f"{definition.name}__reference",
        definition=definition.name,
        author="__builtin__",
        spec=BuildSpec(
            language=SupportedLanguages.PYTHON,
            target_hardware=["cpu", "cuda"],
            entry_point="main.py::run",
            destination_passing_style=False,
        ),
        sources=[SourceFile(path="main.py", content=definition.reference)],
    )
