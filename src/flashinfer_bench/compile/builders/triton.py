"""Triton kernels in Python sources: compiled by Triton when they are first called.

Without a GPU they are interpreted, which says whether they are right and nothing about their speed;
or, when an architecture is asked for, their kernels are compiled for it and not run.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from functools import partial
from typing import TYPE_CHECKING

from flashinfer_bench.compile import triton_kernels
from flashinfer_bench.compile.python_sources import build_python
from flashinfer_bench.compile.targets import find_gpu, has_gpu
from flashinfer_bench.data import settings
from flashinfer_bench.errors import BuildError, ToolchainMissingError

if TYPE_CHECKING:
    from flashinfer_bench.compile.cache import BuildCache
    from flashinfer_bench.compile.runnable import Runnable
    from flashinfer_bench.compile.targets import BuildTarget
    from flashinfer_bench.data import Signature, Solution

_INTERPRET = "TRITON_INTERPRET"


class TritonBuilder:
    """Builds `triton` solutions."""

    handles = ("triton", None)

    def missing_tool(self) -> str | None:
        """Say what to install when Triton or torch is not here."""
        if importlib.util.find_spec("triton") is None:
            return "Triton is not installed: pip install 'flashinfer-bench[triton]'"
        if importlib.util.find_spec("torch") is None:
            return "torch is not installed: pip install 'flashinfer-bench[torch]'"
        return None

    def can_build(self, solution: Solution) -> bool:
        """Take solutions that say they are written in Triton."""
        return (solution.spec.language, solution.spec.effective_binding) == self.handles

    def build(
        self, solution: Solution, signature: Signature, cache: BuildCache, target: BuildTarget
    ) -> Runnable:
        """Import the entry file, interpreted where the target has no GPU; compile what cannot run here."""
        is_interpreted = _is_interpreted(target)
        if is_interpreted:
            _interpret_from_now_on()
        return build_python(
            solution,
            signature,
            cache,
            build_type="triton",
            facts={"interpreted": is_interpreted},
            examine=partial(_compiled_for, solution, target),
        )


def _is_interpreted(target: BuildTarget) -> bool:
    """Interpret without a GPU, unless an architecture to compile for was asked for."""
    return target.arch is None and not has_gpu(target)


def _interpret_from_now_on() -> None:
    """Switch the interpreter on; Triton looks when it decorates, its own functions included."""
    if "triton" not in sys.modules:
        os.environ[_INTERPRET] = "1"  # Triton has no other switch that works before its import
        return
    if settings.environment_copy().get(_INTERPRET) != "1":
        raise BuildError(
            "there is no GPU, and Triton was imported in this process before it could be told to "
            f"interpret; set {_INTERPRET}=1 before anything imports it"
        )


def require_triton_compiler(solution: Solution, arch: str) -> None:
    """Raise `ToolchainMissingError` where Triton was told to interpret, and so compiles for nothing."""
    if settings.environment_copy().get(_INTERPRET) == "1":
        raise ToolchainMissingError(
            f"solution {solution.name!r}: Triton interprets in this process and cannot compile for "
            f"{arch}; build in another one, without {_INTERPRET}"
        )


def _compiled_for(solution: Solution, target: BuildTarget, runnable: Runnable) -> str | None:
    """Compile the kernels for a GPU that is not here, and say so."""
    if _is_interpreted(target):
        return None
    gpu = find_gpu(target)
    if gpu.absence is None:
        return None
    require_triton_compiler(solution, gpu.arch)
    obstacle = triton_kernels.compile_for(gpu, solution, runnable, target.arguments)
    if obstacle is None:
        return gpu.absence
    return f"{gpu.absence.replace('built', 'imported')}; no kernel was compiled: {obstacle}"
