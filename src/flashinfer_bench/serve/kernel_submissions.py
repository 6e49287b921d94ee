"""A kernel's file, a folder or a solution's JSON file becomes the solution that is submitted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from flashinfer_bench.cli.measure.kernel_files import hints_of, solution_from
from flashinfer_bench.errors import UsageError

if TYPE_CHECKING:
    from flashinfer_bench.data import Definition, Solution


class DefinitionSource(Protocol):
    """A server, as far as a kernel's file needs it."""

    def definition(self, name: str) -> Definition:
        """Fetch a definition."""
        ...

    def kinds(self) -> list[str]:
        """Name the kinds of devices that evaluate."""
        ...


def submitted_solution(  # noqa: PLR0917  # options
    source: DefinitionSource,
    kernel: str,
    definition: str | None,
    name: str | None,
    language: str | None,
    entry_point: str | None,
) -> Solution:
    """Read what is submitted; `UsageError` where it is nothing of the kind."""
    found = _solution(source, Path(kernel), definition, language, entry_point)
    return found if name is None else found.model_copy(update={"name": name})


def _solution(
    source: DefinitionSource,
    path: Path,
    definition: str | None,
    language: str | None,
    entry_point: str | None,
) -> Solution:
    from flashinfer_bench.data import Solution, load_json_file, pack  # noqa: PLC0415  # pydantic

    if not path.exists():
        raise UsageError(f"{path}: no such file or folder")
    if path.is_dir() or path.suffix == ".json":
        solution = pack(path) if path.is_dir() else load_json_file(Solution, path)
        if definition not in {None, solution.definition}:
            raise UsageError(f"{path} implements {solution.definition}, not {definition}")
        return solution
    if definition is None:
        raise UsageError("name what the kernel implements with --definition NAME")
    kinds = source.kinds()
    made = solution_from(
        path, source.definition(definition), hints_of(language, entry_point, kinds[0])
    )
    if made.spec.language.value == "cuda":
        return made
    spec = made.spec.model_copy(update={"target_hardware": kinds})
    return made.model_copy(update={"spec": spec, "author": "submit"})
