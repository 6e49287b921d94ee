"""`BuilderRegistry`, the ecosystem's way to ask for builds: `build` with a memory."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from flashinfer_bench.compile.builder import build
from flashinfer_bench.compile.reference import reference_solution
from flashinfer_bench.compile.runnable import Runnable
from flashinfer_bench.errors import BuildError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from flashinfer_bench.data import Definition, Solution


class BuilderRegistry:
    """Builds each (solution, definition) once and remembers the result, a `BuildError` too."""

    def __init__(self, *, cache_root: Path | None = None) -> None:
        self._cache_root = cache_root
        self._results: dict[tuple[str, str], tuple[Definition, Runnable | BuildError]] = {}

    @classmethod
    def get_instance(cls) -> BuilderRegistry:
        """Give the registry that this process shares."""
        return _shared()

    def build(self, definition: Definition, solution: Solution) -> Runnable:
        """Build `solution`, once; the same code under two names gives two runnables."""
        if solution.definition != definition.name:
            raise UsageError(
                f"solution {solution.name!r} implements {solution.definition!r}, "
                f"not {definition.name!r}"
            )
        key = (solution.name, solution.hash())
        known, result = self._results.get(key, (None, None))
        if result is None or (known is not definition and known != definition):
            result = self._result(definition, solution)
            self._results[key] = (definition, result)
        if isinstance(result, BuildError):
            raise result
        return result

    def build_reference(self, definition: Definition) -> Runnable:
        """Build the definition's reference as a Python solution that returns its outputs."""
        return self.build(definition, reference_solution(definition))

    def cleanup(self) -> None:
        """Let go of everything built; what is asked for next is built again."""
        results, self._results = self._results, {}
        for _, result in results.values():
            if isinstance(result, Runnable):
                result.cleanup()

    def _result(self, definition: Definition, solution: Solution) -> Runnable | BuildError:
        try:
            runnable = build(solution, definition.signature(), cache_root=self._cache_root)
        except BuildError as error:
            return error
        runnable.metadata = replace(runnable.metadata, definition=definition)
        return runnable


@cache
def _shared() -> BuilderRegistry:
    return BuilderRegistry()
