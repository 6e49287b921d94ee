"""TileLang kernels in Python sources: compiled by TileLang when they are first called.

Kernels that name no target get the device's; without a GPU that is TileLang's C target, which says
whether they are right and nothing about their speed on a GPU.
"""

from __future__ import annotations

import importlib.util
import os
from typing import TYPE_CHECKING

from flashinfer_bench.compile.python_sources import build_python
from flashinfer_bench.compile.targets import has_gpu

if TYPE_CHECKING:
    from flashinfer_bench.compile.cache import BuildCache
    from flashinfer_bench.compile.runnable import Runnable
    from flashinfer_bench.compile.targets import BuildTarget
    from flashinfer_bench.data import Signature, Solution

_DEFAULT_TARGET = "TILELANG_DEFAULT_TARGET"


class TileLangBuilder:
    """Builds `tilelang` solutions."""

    handles = ("tilelang", None)

    def missing_tool(self) -> str | None:
        """Say what to install when TileLang is not here."""
        if importlib.util.find_spec("tilelang") is None:
            return "TileLang is not installed: pip install 'flashinfer-bench[tilelang]'"
        return None

    def can_build(self, solution: Solution) -> bool:
        """Take solutions that say they are written in TileLang."""
        return (solution.spec.language, solution.spec.effective_binding) == self.handles

    def build(
        self, solution: Solution, signature: Signature, cache: BuildCache, target: BuildTarget
    ) -> Runnable:
        """Import the entry file; where the target has no GPU, kernels become C."""
        is_stand_in = not has_gpu(target)
        if is_stand_in:
            os.environ[_DEFAULT_TARGET] = "c"  # TileLang reads it for every kernel without a target
        return build_python(
            solution, signature, cache, build_type="tilelang", facts={"interpreted": is_stand_in}
        )
