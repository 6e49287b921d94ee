"""The CUDA toolkit of this machine, and one command from CUDA sources to a shared library."""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from flashinfer_bench.compile.compiler import (
    COMPILED_SUFFIXES,
    Recipe,
    file_identity,
    find_sources,
    line_flags,
    missing_compiler,
    require_compiler,
    run_compiler,
)
from flashinfer_bench.data import settings
from flashinfer_bench.errors import BuildError, ToolchainMissingError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from flashinfer_bench.compile.architectures import Gpu
    from flashinfer_bench.data import Solution

CUDA_SUFFIXES = (".cu", *COMPILED_SUFFIXES)
_FLAGS = ("-O3", "--expt-relaxed-constexpr", "-shared", "-Xcompiler=-fPIC,-fopenmp")
_DRIVER_FOLDERS = (
    f"/usr/lib/{platform.machine()}-linux-gnu",
    "/usr/lib64",
    "/usr/lib/wsl/lib",
    "/usr/local/nvidia/lib64",
)
_LIBRARY_HEADERS = {
    "cublas": "cublas_v2.h",
    "cudnn": "cudnn.h",
    "cufft": "cufft.h",
    "curand": "curand.h",
    "cusolver": "cusolverDn.h",
    "cusparse": "cusparse.h",
    "nvJitLink": "nvJitLink.h",
    "nvrtc": "nvrtc.h",
}
"""CUDA's libraries that a toolkit may be without, each with its main header."""
_OF_THE_DRIVER = r"cu(?:[A-Z]|blas)"
"""Functions that may stay undefined where nothing is run."""
_OF_ATEN = frozenset({"cublas", "cusolver", "cusparse"})
_LIBRARY_NAMES = "|".join(_LIBRARY_HEADERS)
_MISSING_HEADER = re.compile(rf"fatal error: ((?:{_LIBRARY_NAMES})\w*\.h): No such file")
_INCLUDED = re.compile(rf'^\s*#\s*include\s*[<"]({_LIBRARY_NAMES})\w*\.h[>"]', re.MULTILINE)
_INSTALL_LINES = (
    "\n  the toolkit of your system: https://developer.nvidia.com/cuda-downloads"
    "\n  or from PyPI:               pip install 'flashinfer-bench[cuda]'"
    "\n  elsewhere already:          set CUDA_HOME to its folder"
)


@dataclass(frozen=True, slots=True)
class Toolkit:
    """A folder with `bin/nvcc` and the runtime's headers."""

    root: Path

    @property
    def nvcc(self) -> Path:
        """The compiler itself, not a script that starts it from somewhere else."""
        return self.root / "bin" / "nvcc"

    @property
    def include_folder(self) -> Path:
        """Where `cuda_runtime.h` is."""
        return self.root / "include"

    @property
    def library_folders(self) -> tuple[Path, ...]:
        """Where libraries are, those that stand in for the driver's included."""
        folders = [self.root / "lib64", self.root / "lib"]
        return tuple(
            folder for base in folders for folder in (base, base / "stubs") if folder.is_dir()
        )


def find_toolkit() -> Toolkit | None:
    """Find the toolkit: CUDA_HOME or CUDA_PATH, nvcc on PATH, /usr/local/cuda*, packages of pip.

    A folder counts when it has both compiler and headers: an `nvcc` on PATH may be a script far
    away from its toolkit.
    """
    for root in _candidates():
        if (root / "bin" / "nvcc").is_file() and (root / "include" / "cuda_runtime.h").is_file():
            return Toolkit(root)
    return None


def needs_nvcc(solution: Solution) -> bool:
    """Tell whether a compiled solution has CUDA in it, by a file's suffix, or its language and its hardware."""
    if find_sources(solution, (".cu",)):
        return True
    is_for_cpu = {each.lower() for each in solution.spec.target_hardware} == {"cpu"}
    return solution.spec.language == "cuda" and not is_for_cpu


def missing_toolkit() -> str | None:
    """Say what to install when there is no CUDA toolkit, or no C++ compiler for it to use."""
    if find_toolkit() is None:
        return f"no CUDA toolkit (nvcc and cuda_runtime.h) found; install one:{_INSTALL_LINES}"
    return missing_compiler()


def require_toolkit(solution: Solution) -> Toolkit:
    """Give the toolkit; raises `ToolchainMissingError` that says how to get one."""
    toolkit = find_toolkit()
    if toolkit is None:
        raise ToolchainMissingError(
            f"solution {solution.name!r} cannot be built here: {missing_toolkit()}"
        )
    return toolkit


def cuda_facts(toolkit: Toolkit, gpu: Gpu) -> dict[str, str]:
    """Name what nvcc brings into a binary besides the C++ compiler."""
    return {
        "nvcc": file_identity(str(toolkit.nvcc)),
        "nvcc_flags": " ".join(_FLAGS),
        "arch": gpu.code,
    }


def compile_cuda(
    solution: Solution,
    folder: Path,
    output: str,
    recipe: Recipe,
    *,
    toolkit: Toolkit,
    gpu: Gpu,
) -> None:
    """Compile the CUDA, C++ and C sources that lie under `folder` into `folder/output`."""
    program, *options = require_compiler()
    command = [
        str(toolkit.nvcc),
        f"-std={recipe.standard}",
        *_FLAGS,
        f"-gencode=arch=compute_{gpu.code},code=sm_{gpu.code}",
        f"-ccbin={program}",
        *(f"-Xcompiler={option}" for option in (*options, *recipe.compiler_flags)),
        *(
            f"-Xcompiler={flag}".replace("-Xcompiler=-Wl,", "-Xlinker=")
            for flag in line_flags(recipe)
        ),
        *recipe.nvcc_flags,
        *(f"-D{define}" for define in recipe.defines),
        "-I.",
        *(f"-isystem={path}" for path in recipe.include_folders),
        *(f"./{source}" for source in find_sources(solution, CUDA_SUFFIXES)),
        f"-o={output}",
        *(f"-L={path}" for path in recipe.library_folders),
        *(f"-l={library}" for library in recipe.libraries),
        *_link_flags(recipe, toolkit),
    ]
    try:
        run_compiler(solution, command, folder, may_lack=_OF_THE_DRIVER)
    except BuildError as error:
        header = _MISSING_HEADER.search(error.log)
        if header is None:
            raise
        raise _without_header(solution, header.group(1), toolkit, log=error.log) from error


def require_headers(solution: Solution, toolkit: Toolkit, more_folders: Sequence[str] = ()) -> None:
    """Raise `ToolchainMissingError` when the sources include a library of CUDA's that is not installed."""
    texts = (source.content for source in solution.sources)
    used = {name for text in texts for name in _INCLUDED.findall(text)}
    if solution.spec.effective_binding == "torch":
        used |= _OF_ATEN
    folders = (toolkit.include_folder, *map(Path, more_folders))
    for name in sorted(used):
        header = _LIBRARY_HEADERS[name]
        if not any((folder / header).is_file() for folder in folders):
            raise _without_header(solution, header, toolkit)


def _without_header(
    solution: Solution, header: str, toolkit: Toolkit, *, log: str = ""
) -> ToolchainMissingError:
    return ToolchainMissingError(
        f"solution {solution.name!r} includes {header}, which {toolkit.root} is "
        f"without; install a whole CUDA toolkit, or that library from PyPI as nvidia-<library>",
        log=log,
    )


def _link_flags(recipe: Recipe, toolkit: Toolkit) -> Iterator[str]:
    """Link what the sources turn out to use: the driver and cuBLAS need not be declared."""
    driver = find_shared((*toolkit.library_folders, *map(Path, _DRIVER_FOLDERS)), "cuda")
    blas = find_shared(toolkit.library_folders, "cublas")
    used = [str(path) for path in (driver, blas) if path is not None]
    yield from (f"-Xlinker={word}" for word in ("-z", "now", *recipe.library_files))
    yield from (f"-Xlinker={word}" for word in ("--as-needed", *used))
    if blas is not None:
        yield f"-Xlinker=-rpath={blas.parent}"
    for flag in recipe.link_flags:
        yield flag.replace("-Wl,", "-Xlinker=", 1)
    if driver is None:  # its functions come with a driver, and there is none here
        yield "-Xlinker=--warn-unresolved-symbols"


def find_shared(folders: tuple[Path, ...], name: str) -> Path | None:
    """Find `lib<name>.so`, else `lib<name>.so.<major>`, in the first folder that has one."""
    for folder in folders:
        plain = folder / f"lib{name}.so"
        if plain.exists():
            return plain
        versions = sorted(folder.glob(f"lib{name}.so.*"), key=lambda path: (len(path.name), path))
        if versions:
            return versions[0]
    return None


def _candidates() -> Iterator[Path]:
    environment = settings.environment_copy()
    yield from (
        Path(environment[name]) for name in ("CUDA_HOME", "CUDA_PATH") if name in environment
    )
    on_path = shutil.which("nvcc", path=environment.get("PATH", os.defpath))
    if on_path is not None:
        yield Path(os.path.realpath(on_path)).parents[1]
    yield Path("/usr/local/cuda")
    yield from sorted(Path("/usr/local").glob("cuda-*"), reverse=True)
    yield from pip_folders("cu*")


def pip_folders(pattern: str) -> Iterator[Path]:
    """Yield the folders of NVIDIA's packages from PyPI that match a pattern, newest first."""
    spec = importlib.util.find_spec("nvidia")
    for root in (spec.submodule_search_locations or ()) if spec is not None else ():
        yield from sorted(Path(root).glob(pattern), reverse=True)
