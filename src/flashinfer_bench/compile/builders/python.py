"""Python sources: imported as a package of this process, checked against the signature."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashinfer_bench.compile.python_sources import build_python

if TYPE_CHECKING:
    from flashinfer_bench.compile.cache import BuildCache
    from flashinfer_bench.compile.runnable import Runnable
    from flashinfer_bench.compile.targets import BuildTarget
    from flashinfer_bench.data import Signature, Solution


class PythonBuilder:
    """Builds `python` solutions."""

    handles = ("python", None)

    def missing_tool(self) -> str | None:
        """Nothing: the interpreter is here."""
        return None

    def can_build(self, solution: Solution) -> bool:
        """Take solutions in plain Python, whatever packages they import."""
        return (solution.spec.language, solution.spec.effective_binding) == self.handles

    def build(
        self,
        solution: Solution,
        signature: Signature,
        cache: BuildCache,
        target: BuildTarget,  # noqa: ARG002 - Python is the same for every device
    ) -> Runnable:
        """Write the sources, import the entry file and check its function."""
        return build_python(solution, signature, cache, build_type="python")
