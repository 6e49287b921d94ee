"""The C++ compiler of this machine, and one command from sources to a shared library.

The flags are the same for every binding: `-O3 -march=native -fopenmp`, no `-ffast-math` (a solution
that wants it says so in its source: `#pragma GCC optimize("fast-math")`). `-march=native` makes the
processor part of what a build depends on.
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from flashinfer_bench.compile.undefined import undefined_in, with_place
from flashinfer_bench.data import settings
from flashinfer_bench.errors import BuildError, ToolchainMissingError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from flashinfer_bench.data import Solution

COMPILED_SUFFIXES = (".cpp", ".cc", ".cxx", ".c")
FLAGS = ("-O3", "-march=native", "-fopenmp", "-fPIC", "-shared", "-Wl,-z,now")
_LINE_FLAGS = ("-g1", "-Wl,--strip-debug")
"""With them the linker names the line that uses what nothing defines; the binary is the same."""
BUILD_LOG = "build.log"

_CPU_FACTS = (
    "vendor_id",
    "cpu family",
    "model",
    "flags",
    "CPU implementer",
    "CPU part",
    "Features",
)
_INSTALL_LINES = (
    "\n  Debian, Ubuntu: apt-get install g++"
    "\n  Fedora, RHEL:   dnf install gcc-c++"
    "\n  conda:          conda install gxx_linux-64"
)


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a binding adds to the common flags."""

    standard: str
    include_folders: tuple[str, ...]
    library_folders: tuple[str, ...]
    libraries: tuple[str, ...]
    defines: tuple[str, ...] = ()
    link_flags: tuple[str, ...] = ()
    """As for the C++ compiler: `-Wl,…`."""
    library_files: tuple[str, ...] = ()
    """Full paths: packages from PyPI have `libx.so.12` and no `libx.so` for `-l` to find."""
    compiler_flags: tuple[str, ...] = ()
    """Of the solution's own, for the C++ compiler."""
    nvcc_flags: tuple[str, ...] = ()
    """Of the solution's own, for nvcc."""


def compiler_command() -> list[str] | None:
    """Find the C++ compiler: what CXX names, else the first of c++, g++ and clang++ on PATH."""
    environment = settings.environment_copy()
    found = _find_compiler(environment.get("CXX", ""), environment.get("PATH", os.defpath))
    return list(found) if found else None


@functools.lru_cache(maxsize=8)
def _find_compiler(named: str, path: str) -> tuple[str, ...] | None:
    words = shlex.split(named)
    candidates = [words] if words else [["c++"], ["g++"], ["clang++"]]
    for program, *options in candidates:
        found = shutil.which(program, path=path)
        if found is not None:
            return (found, *options)
    return None


def missing_compiler() -> str | None:
    """Say what to install when there is no C++ compiler."""
    if compiler_command() is not None:
        return None
    named = settings.environment_copy().get("CXX", "").strip()
    if named:
        return f"CXX names {named!r}, which is no program on PATH; correct it, or unset CXX"
    return f"no C++ compiler (CXX, c++, g++ or clang++) on PATH; install one:{_INSTALL_LINES}"


def toolchain_facts() -> dict[str, str]:
    """Name what the compiler brings into a binary, without starting it.

    An upgraded compiler is another file: its size and time tell versions apart in microseconds,
    where asking `--version` costs more than the whole cached look-up.
    """
    return {
        "compiler": " ".join(file_identity(word) for word in require_compiler()),
        "flags": " ".join(FLAGS),
        "cpu": _cpu_identity(),
    }


def compile_library(solution: Solution, folder: Path, output: str, recipe: Recipe) -> None:
    """Compile the C and C++ sources that lie under `folder` into `folder/output`."""
    sources = find_sources(solution, COMPILED_SUFFIXES)
    run_compiler(solution, [*require_compiler(), *_arguments(sources, output, recipe)], folder)


def line_flags(recipe: Recipe) -> tuple[str, ...]:
    """Give `_LINE_FLAGS`, unless the solution has its own word about debug information, for a profiler."""
    options = (*recipe.compiler_flags, *recipe.nvcc_flags)
    return () if any(flag.startswith("-g") for flag in options) else _LINE_FLAGS


def run_compiler(
    solution: Solution, command: list[str], folder: Path, *, may_lack: str | None = None
) -> None:
    """Run a compiler in `folder`; its words become the build's log, or the error's.

    Paths are relative to the folder, so neither messages nor the binary name where the build
    happened. The compiler stays in this process's group: whoever kills the group kills it too.
    Symbols that match `may_lack` may stay undefined, where the linker only warns of them.
    """
    # Temporary files in the build folder go away with it, even when the compiler is killed.
    environment = settings.environment_copy() | {"TMPDIR": str(folder), "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        encoding="utf-8",
        errors="replace",
    )
    words = done.stdout.replace(f"{os.path.realpath(folder)}/./", "./")
    is_lacking = may_lack is not None and any(
        re.match(may_lack, name) is None for name in undefined_in(words)
    )
    if done.returncode != 0 or is_lacking:
        words = with_place(solution, words.replace(": warning: undefined ", ": undefined "))
        log = f"$ {' '.join(command)}\n{words}"
        raise BuildError(_failure(solution, words, done.returncode), log=log)
    log = f"$ {' '.join(command)}\n{words}"
    (folder / BUILD_LOG).write_text(log, encoding="utf-8")


def _arguments(sources: Iterable[PurePosixPath], output: str, recipe: Recipe) -> list[str]:
    arguments = [f"-std={recipe.standard}", *FLAGS, *line_flags(recipe), *recipe.compiler_flags]
    arguments += [f"-D{define}" for define in recipe.defines]
    arguments += ["-I.", *(f"-isystem{path}" for path in recipe.include_folders)]
    for source in sources:  # c++ takes .c files for C++ unless told
        arguments += ["-x", "c" if source.suffix == ".c" else "c++", f"./{source}"]
    arguments += ["-x", "none", "-o", output]
    arguments += [*recipe.library_files, *(f"-L{path}" for path in recipe.library_folders)]
    arguments += [f"-l{library}" for library in recipe.libraries]
    return [*arguments, *recipe.link_flags]


def find_sources(solution: Solution, suffixes: tuple[str, ...]) -> list[PurePosixPath]:
    """Name the sources with one of the suffixes, in an order that does not depend on theirs."""
    paths = (PurePosixPath(source.path) for source in solution.sources)
    return sorted(path for path in paths if path.suffix in suffixes)


def _failure(solution: Solution, words: str, status: int) -> str:
    marks = ("error", "undefined reference", "cannot find")
    first = next((line for line in words.splitlines() if any(mark in line for mark in marks)), "")
    detail = first.strip() or f"the compiler ended with status {status}"
    return f"solution {solution.name!r} does not compile: {detail}"


def require_compiler() -> list[str]:
    """Give the C++ compiler's command; raises `ToolchainMissingError` when there is none."""
    command = compiler_command()
    if command is None:
        raise ToolchainMissingError(missing_compiler() or "no C++ compiler")
    return command


def file_identity(word: str) -> str:
    """Name the file a word stands for with its size and time; an option is itself."""
    found = word if "/" in word else shutil.which(word)
    if found is None or not Path(found).is_file():
        return word
    path = os.path.realpath(found)
    stat = Path(path).stat()
    return f"{path} {stat.st_size} {stat.st_mtime_ns}"


@functools.cache
def _cpu_identity() -> str:
    """Name the processor as far as `-march=native` sees it."""
    facts = [platform.machine()]
    try:
        with Path("/proc/cpuinfo").open("rb", buffering=0) as file:
            first = file.read(os.sysconf("SC_PAGE_SIZE") * 2).split(b"\n\n")[0]
    except OSError:
        first = b""
    for line in first.decode(errors="replace").splitlines():
        name, _, value = line.partition(":")
        if name.strip() in _CPU_FACTS:
            facts.append(f"{name.strip()}={value.strip()}")
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]
