"""Compiled solutions: the toolchain they need here, and a binary as a runnable, loaded or only looked into."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flashinfer_bench.compile.compiler import COMPILED_SUFFIXES, compile_library, toolchain_facts
from flashinfer_bench.compile.cuda import (
    CUDA_SUFFIXES,
    compile_cuda,
    cuda_facts,
    needs_nvcc,
    require_toolkit,
)
from flashinfer_bench.compile.dependencies import find_libraries
from flashinfer_bench.compile.runnable import Runnable, RunnableMetadata
from flashinfer_bench.compile.sources import require_entry_suffix, write_sources
from flashinfer_bench.compile.targets import find_gpu
from flashinfer_bench.data.build_options import without_architecture
from flashinfer_bench.errors import BuildError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from flashinfer_bench.compile.architectures import Gpu
    from flashinfer_bench.compile.compiler import Recipe
    from flashinfer_bench.compile.cuda import Toolkit
    from flashinfer_bench.compile.targets import BuildTarget
    from flashinfer_bench.data import Signature, Solution


@dataclass(frozen=True, slots=True)
class Toolchain:
    """How one solution is compiled, and what that brings into its binary."""

    recipe: Callable[[], Recipe]
    """Made when something is left to compile."""
    facts: dict[str, str]
    cuda: tuple[Toolkit, Gpu] | None = None

    @property
    def absence(self) -> str | None:
        """Why the binary cannot run here; None when it can."""
        return None if self.cuda is None else self.cuda[1].absence

    def compile(self, solution: Solution, output: str, folder: Path) -> None:
        """Write the sources under `folder` and compile them into `folder/output`."""
        write_sources(solution, folder)
        if self.cuda is None:
            compile_library(solution, folder, output, self.recipe())
        else:
            toolkit, gpu = self.cuda
            compile_cuda(solution, folder, output, self.recipe(), toolkit=toolkit, gpu=gpu)


def find_toolchain(
    solution: Solution, target: BuildTarget, recipe: Callable[[], Recipe]
) -> Toolchain:
    """Find compilers and libraries; raises `ToolchainMissingError` that names what is not here."""

    def whole() -> Recipe:
        return _with_flags(find_libraries(solution).added_to(recipe()), solution)

    if not needs_nvcc(solution):
        require_entry_suffix(solution, COMPILED_SUFFIXES)
        return Toolchain(whole, facts_of(solution, None))
    require_entry_suffix(solution, CUDA_SUFFIXES)
    toolkit, gpu = require_toolkit(solution), find_gpu(target)
    return Toolchain(whole, facts_of(solution, gpu), (toolkit, gpu))


def facts_of(solution: Solution, gpu: Gpu | None) -> dict[str, str]:
    """Name what this machine brings into a binary, without loading or starting anything."""
    facts = toolchain_facts() | find_libraries(solution).facts
    return facts if gpu is None else facts | cuda_facts(require_toolkit(solution), gpu)


def _with_flags(recipe: Recipe, solution: Solution) -> Recipe:
    """Add the solution's own flags; the device's architecture and the driver's library are ours to name."""
    options = solution.spec.compile_options
    if options is None:
        return recipe
    of_linker = (flag for flag in options.ld_flags if flag != "-lcuda")
    return replace(
        recipe,
        compiler_flags=tuple(options.cflags),
        nvcc_flags=tuple(without_architecture(options.cuda_cflags)),
        link_flags=(*recipe.link_flags, *of_linker),
    )


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
