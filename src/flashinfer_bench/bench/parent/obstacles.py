"""Whether it is the machine that keeps a solution from being built: what the parent finds itself.

A build runs code of the solution, so what it says is no more than an occasion to look.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashinfer_bench.compile.architectures import Gpu
from flashinfer_bench.compile.builder import require_toolchain
from flashinfer_bench.compile.cuda import needs_nvcc
from flashinfer_bench.compile.dependencies import find_libraries, require_dependencies
from flashinfer_bench.errors import ToolchainMissingError

if TYPE_CHECKING:
    from flashinfer_bench.data import Solution

_COMPILED = frozenset({"cpp", "cuda"})


def missing_toolchain(solution: Solution, *, arch: str | None) -> str | None:
    """Say what a solution needs and this machine lacks; None when all of it is here."""
    try:
        require_toolchain(solution, arch)
    except ToolchainMissingError as error:
        return str(error)
    return None


def missing_dependency(solution: Solution) -> str | None:
    """Say which package or library of `dependencies` is not here, or not in such a version; asked before a build."""
    try:
        if solution.spec.language in _COMPILED:
            find_libraries(solution)
        else:
            require_dependencies(solution)
    except ToolchainMissingError as error:
        return str(error)
    return None


def is_for_another_device(solution: Solution, *, arch: str | None, own_arch: str | None) -> bool:
    """Tell whether a solution is compiled for a GPU that is not the device: none is here, or one of another `arch`."""
    if solution.spec.language in _COMPILED:
        is_for_gpu = needs_nvcc(solution)
    else:
        is_for_gpu = solution.spec.language == "triton" and arch is not None
    if own_arch is None or not is_for_gpu:
        return is_for_gpu
    return arch is not None and Gpu(arch).capability != Gpu(own_arch).capability
