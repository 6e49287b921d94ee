"""What a solution names as dependencies: Python packages, and NVIDIA's libraries, found on this machine."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.requirements import InvalidRequirement, Requirement

from flashinfer_bench.compile.compiler import Recipe, file_identity
from flashinfer_bench.compile.cuda import find_shared, find_toolkit, pip_folders
from flashinfer_bench.data import settings
from flashinfer_bench.errors import ToolchainMissingError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from flashinfer_bench.data import Solution


_EXTRAS = {
    "nvidia-cutlass-dsl": "flashinfer-bench[cute]",
    "tilelang": "flashinfer-bench[tilelang]",
    "triton": "flashinfer-bench[triton]",
}
"""Packages that come with an extra of ours, in versions that go together."""


def require_dependencies(solution: Solution) -> None:
    """Raise when a Python package that the solution names is not installed, or not in a version that it asks for.

    People write both kinds of name, `flashinfer-python` and `flashinfer`: either is found. A line whose marker is
    about other machines (`; sys_platform == 'win32'`) asks for nothing here.
    """
    _require_packages(solution, solution.spec.dependencies)


def _require_packages(solution: Solution, lines: Sequence[str]) -> None:
    """Raise for those of `lines`, Python packages that the solution names, that are not here as asked for."""
    lacks = {line: lack for line in lines if (lack := _lack(line)) is not None}
    if lacks:
        quoted = " ".join(f"'{_EXTRAS.get(line, line)}'" for line in lacks)
        said = ", ".join(f"{line}, {lack}" for line, lack in lacks.items())
        raise ToolchainMissingError(
            f"solution {solution.name!r} needs {said}: pip install {quoted}"
        )


def _lack(line: str) -> str | None:
    """Say what a requirement lacks on this machine; None where nothing."""
    try:
        requirement = Requirement(line)
    except InvalidRequirement:
        return "which is no requirement as pip reads them"
    if requirement.marker is not None and not requirement.marker.evaluate():
        return None
    version = _installed_version(requirement.name)
    if version is None:
        return "which is not installed"
    if version and not requirement.specifier.contains(version, prereleases=True):
        return f"and {version} is installed"
    return None


def _installed_version(name: str) -> str | None:
    """Find a package's version by its own name, or a module's; empty where a module has none, None without it.

    Which package a module is of is asked last: that reads the records of all packages, a second on a full machine.
    """
    version = _version_of(name)
    if version is not None or "." in name or importlib.util.find_spec(name) is None:
        return version
    packages = importlib.metadata.packages_distributions().get(name, ())
    return next(filter(None, map(_version_of, packages)), "")


def _version_of(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


@dataclass(frozen=True, slots=True)
class _Library:
    """How to recognise one: a header, the libraries behind it, and how to get it."""

    header: str
    names: tuple[str, ...]
    install: str


_KNOWN = {
    "cuda": _Library("cuda_runtime.h", ("cudart",), "pip install 'flashinfer-bench[cuda]'"),
    "cublas": _Library(
        "cublas_v2.h",
        ("cublas", "cublasLt"),
        "pip install nvidia-cublas (CUDA 12: nvidia-cublas-cu12)",
    ),
    "cudnn": _Library(
        "cudnn.h", ("cudnn",), "pip install nvidia-cudnn-cu13 (CUDA 12: nvidia-cudnn-cu12)"
    ),
    "cutlass": _Library(
        "cutlass/cutlass.h",
        (),
        "git clone https://github.com/NVIDIA/cutlass and set CUTLASS_PATH to its folder",
    ),
}

_SEARCHED_ANYWAY = (Path("/usr/include"), Path("/usr/local/include"))


@dataclass(frozen=True, slots=True)
class FoundLibraries:
    """Headers and libraries that a solution asked for."""

    include_folders: tuple[str, ...] = ()
    library_files: tuple[str, ...] = ()

    def added_to(self, recipe: Recipe) -> Recipe:
        """Give the recipe with these, and with the folders where the loader will find them."""
        folders = dict.fromkeys(str(Path(file).parent) for file in self.library_files)
        return replace(
            recipe,
            include_folders=(*recipe.include_folders, *self.include_folders),
            library_files=(*recipe.library_files, *self.library_files),
            link_flags=(*recipe.link_flags, *(f"-Wl,-rpath={folder}" for folder in folders)),
        )

    @property
    def facts(self) -> dict[str, str]:
        """Name what the libraries bring into a build."""
        if not (self.include_folders or self.library_files):
            return {}
        return {
            "libraries": " ".join(map(file_identity, self.library_files)),
            "headers": " ".join(self.include_folders),
        }


def find_libraries(solution: Solution) -> FoundLibraries:
    """Find what a compiled solution's `dependencies` name.

    `cublas`, `cudnn` and `cutlass` are headers and libraries, everything else a Python package.
    Raises `ToolchainMissingError` with the line that installs what is not there.
    """
    lines = solution.spec.dependencies
    names = [line for line in lines if line.strip().lower() in _KNOWN]
    _require_packages(solution, [line for line in lines if line not in names])
    includes: dict[str, None] = {}
    files: list[str] = []
    for name in names:
        library = _KNOWN[name.strip().lower()]
        place = _find(library)
        if place is None:
            raise ToolchainMissingError(
                f"solution {solution.name!r} needs {name}, and {library.header}"
                f"{' with its libraries' if library.names else ''} is not found: {library.install}"
            )
        includes |= dict.fromkeys(str(folder) for folder in place.includes)
        files += map(str, place.files)
    return FoundLibraries(tuple(includes), tuple(files))


@dataclass(frozen=True, slots=True)
class _LibraryPlace:
    includes: tuple[Path, ...]
    files: tuple[Path, ...]


def _find(library: _Library) -> _LibraryPlace | None:
    """Find the first place that has the header and every library."""
    for include, folders in _places():
        if not (include / library.header).is_file():
            continue
        files = [find_shared(folders, name) for name in library.names]
        found = tuple(file for file in files if file is not None)
        if len(found) == len(files):
            return _LibraryPlace(_with_companions(include, has_binary=bool(found)), found)
    return None


def _with_companions(include: Path, *, has_binary: bool) -> tuple[Path, ...]:
    """Add what the headers themselves include: CUDA's, or the utilities that CUTLASS has beside it.

    The compiler's own folders are left out: named again they come in the wrong order.
    """
    toolkit = find_toolkit() if has_binary else None
    more = toolkit.include_folder if toolkit else include.parent / "tools" / "util" / "include"
    folders = [path for path in (include, more) if path.is_dir()]
    return tuple(path for path in dict.fromkeys(folders) if path not in _SEARCHED_ANYWAY)


def _places() -> Iterator[tuple[Path, tuple[Path, ...]]]:
    """Yield include folders, each with the folders of its libraries."""
    cutlass = settings.environment_copy().get("CUTLASS_PATH")
    if cutlass:
        yield Path(cutlass) / "include", ()
    toolkit = find_toolkit()
    if toolkit is not None:
        yield toolkit.include_folder, toolkit.library_folders
    for folder in pip_folders("*"):
        yield folder / "include", (folder / "lib",)
    package = importlib.util.find_spec("cutlass_library")  # from `nvidia-cutlass`, with the headers
    for root in (package.submodule_search_locations or ()) if package is not None else ():
        yield Path(root) / "source" / "include", ()
    for include in _SEARCHED_ANYWAY:
        libraries = include.parent / "lib"
        machine = f"{platform.machine()}-linux-gnu"
        yield include, (libraries / machine, include.parent / "lib64", libraries)
