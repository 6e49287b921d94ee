"""The toolchain a compiled solution needs here: the C++ compiler alone, or nvcc with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashinfer_bench.compile.compiler import COMPILED_SUFFIXES, compile_library, toolchain_facts
from flashinfer_bench.compile.cuda import (
    CUDA_SUFFIXES,
    compile_cuda,
    cuda_facts,
    needs_nvcc,
    require_toolkit,
)
from flashinfer_bench.compile.libraries import find_libraries
from flashinfer_bench.compile.sources import require_entry_suffix, write_sources
from flashinfer_bench.compile.targets import find_gpu

if TYPE_CHECKING:
    from pathlib import Path

    from flashinfer_bench.compile.architectures import Gpu
    from flashinfer_bench.compile.compiler import Recipe
    from flashinfer_bench.compile.cuda import Toolkit
    from flashinfer_bench.compile.targets import BuildTarget
    from flashinfer_bench.data import Solution


@dataclass(frozen=True, slots=True)
class Toolchain:
    """How one solution is compiled, and what that brings into its binary."""

    recipe: Recipe
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
            compile_library(solution, folder, output, self.recipe)
        else:
            toolkit, gpu = self.cuda
            compile_cuda(solution, folder, output, self.recipe, toolkit=toolkit, gpu=gpu)


def find_toolchain(solution: Solution, target: BuildTarget, recipe: Recipe) -> Toolchain:
    """Find compilers and libraries; raises `ToolchainMissingError` that names what is not here."""
    libraries = find_libraries(solution)
    recipe = libraries.added_to(recipe)
    facts = toolchain_facts() | libraries.facts
    if not needs_nvcc(solution):
        require_entry_suffix(solution, COMPILED_SUFFIXES)
        return Toolchain(recipe, facts)
    require_entry_suffix(solution, CUDA_SUFFIXES)
    toolkit, gpu = require_toolkit(solution), find_gpu(target)
    return Toolchain(recipe, facts | cuda_facts(toolkit, gpu), (toolkit, gpu))
