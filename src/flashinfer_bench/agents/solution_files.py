"""A solution as plain files for an agent to edit, and back; `unpack` and `pack` are the suite's own form."""

from __future__ import annotations

from pathlib import Path

from flashinfer_bench.data import BuildSpec, Solution, SourceFile

_SUFFIXES = (".py", ".cu", ".cuh", ".cpp", ".c", ".h", ".hpp", ".cc", ".cxx")
ABOUT = "SOLUTION.md"


def extract_solution_to_files(solution: Solution, base_path: str | Path) -> str:
    """Write sources and a `SOLUTION.md` to a folder below `base_path`, by the solution's name; give the folder.

    Raises `ValueError` where `base_path` is no folder.
    """
    base = Path(base_path)
    if not base.is_dir():
        raise ValueError(f"{base} is no folder")
    folder = base / solution.name
    if folder.resolve().parent != base.resolve():
        raise ValueError(f"{solution.name!r} is no name of a folder in {base}")
    for source in solution.sources:
        file = folder / source.path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(source.content, encoding="utf-8")
    (folder / ABOUT).write_text(_about(solution), encoding="utf-8")
    return str(folder)


def pack_solution_from_files(  # noqa: PLR0917  # the existing system's order
    path: str | Path,
    spec: BuildSpec,
    name: str,
    definition: str,
    author: str,
    description: str = "",
) -> Solution:
    """Make a solution of a folder's source files, those of folders below it too, in the order of their paths.

    Raises `ValueError` where there is none.
    """
    folder = Path(path)
    files = sorted(
        each for each in folder.rglob("*") if each.is_file() and each.suffix in _SUFFIXES
    )
    if not files:
        raise ValueError(f"{folder} has no source file ({' '.join(_SUFFIXES)})")
    sources = [
        SourceFile(path=each.relative_to(folder).as_posix(), content=each.read_text("utf-8"))
        for each in files
    ]
    return Solution(
        name=name,
        definition=definition,
        author=author,
        spec=spec,
        sources=sources,
        description=description or None,
    )


def _about(solution: Solution) -> str:
    files = "\n".join(f"* `{each.path}`" for each in solution.sources)
    return (
        f"# {solution.name}\n\n* definition: {solution.definition}\n* author: {solution.author}\n"
        f"* description: {solution.description or ''}\n\n## Build\n\n"
        f"```json\n{solution.spec.model_dump_json(indent=2)}\n```\n\n## Files\n\n{files}\n"
    )
