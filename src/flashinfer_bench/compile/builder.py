"""From a solution's sources to a `Runnable`: what a builder is, which one a solution gets, and builds with a memory."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from flashinfer_bench.compile.architectures import DEFAULT_ARCH, Gpu
from flashinfer_bench.compile.builders.python import PythonBuilder
from flashinfer_bench.compile.builders.tilelang import TileLangBuilder
from flashinfer_bench.compile.builders.torch_extension import TorchExtensionBuilder
from flashinfer_bench.compile.builders.triton import TritonBuilder, require_triton_compiler
from flashinfer_bench.compile.builders.tvm_ffi import TvmFfiBuilder
from flashinfer_bench.compile.cache import BuildCache, solution_folder
from flashinfer_bench.compile.cuda import needs_nvcc, require_headers, require_toolkit
from flashinfer_bench.compile.dependencies import find_libraries, require_dependencies
from flashinfer_bench.compile.native import facts_of
from flashinfer_bench.compile.runnable import Runnable
from flashinfer_bench.compile.sources import reference_solution
from flashinfer_bench.compile.targets import BuildTarget
from flashinfer_bench.data import settings
from flashinfer_bench.errors import BuildError, ToolchainMissingError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from flashinfer_bench.data import Definition, Signature, Solution


class Builder(Protocol):
    """Turns the sources of some solutions into a callable."""

    @property
    def handles(self) -> tuple[str, str | None]:
        """The language and binding it takes; Python has no binding."""

    def missing_tool(self) -> str | None:
        """Say what is not installed here and how to get it; None when everything is."""

    def can_build(self, solution: Solution) -> bool:
        """Tell whether language and binding are this builder's."""

    def build(
        self, solution: Solution, signature: Signature, cache: BuildCache, target: BuildTarget
    ) -> Runnable:
        """Build or take from the cache; a fault of the solution is a `BuildError` with its log."""


@runtime_checkable
class DefinitionBuilder(Protocol):
    """A builder as people write it for the ecosystem: it is given the definition, and keeps what it builds itself."""

    def is_available(self) -> bool:
        """Tell whether it can be used on this machine."""

    def can_build(self, solution: Solution) -> bool:
        """Tell whether it takes a solution."""

    def build(self, definition: Definition, solution: Solution) -> Runnable:
        """Build; a fault of the solution is a `BuildError`."""


@runtime_checkable
class Compiling(Protocol):
    """What a builder can do besides, whose compiler needs neither the device nor the solution's own code."""

    def compile(self, solution: Solution, cache: BuildCache, target: BuildTarget) -> None:
        """Compile unless it was, and load nothing; errors as of `Builder.build`."""

    def is_compiled(self, solution: Solution, cache: BuildCache, facts: dict[str, str]) -> bool:
        """Tell whether the binary of such facts is there."""


_ALL: tuple[Builder, ...] = (
    PythonBuilder(),
    TritonBuilder(),
    TileLangBuilder(),
    TvmFfiBuilder("cpp"),
    TvmFfiBuilder("cuda"),
    TorchExtensionBuilder("cpp"),
    TorchExtensionBuilder("cuda"),
)

BUILDERS: Mapping[tuple[str, str | None], Builder] = {builder.handles: builder for builder in _ALL}
"""Every builder by the language and binding that solutions declare."""


def build(
    solution: Solution,
    signature: Signature,
    *,
    target: BuildTarget | None = None,
    cache_root: Path | None = None,
    builders: Sequence[Builder] | None = None,
) -> Runnable:
    """Turn a solution into a callable that fits the signature.

    Raises `BuildError` (its `log` holds compiler output or traceback) when the sources are at
    fault, `ToolchainMissingError` when something is not installed. Code for a GPU that is not here
    is compiled all the same; `metadata.absence` then says why it cannot run. `target` defaults to
    this machine's first GPU, else its CPU, `cache_root` to the cache folder of the settings; of
    `builders`, where given, the first that can builds.
    """
    builder = _equipped_builder(solution, builders)
    cache = BuildCache(solution_folder(cache_root or settings.cache_path(), solution))
    return builder.build(solution, signature, cache, target or BuildTarget())


def compile_ahead(solution: Solution, arch: str | None, cache_root: Path) -> None:
    """Do what compilers do of a build: afterwards `build` has nothing to compile.

    Nothing of the solution is loaded, and no GPU is touched. `arch` is that of its device, or what was asked for.
    Raises what `build` would.
    """
    builder = _equipped_builder(solution)
    if isinstance(builder, Compiling):
        cache = BuildCache(solution_folder(cache_root, solution))
        builder.compile(solution, cache, BuildTarget("cpu", arch))


def is_compiled_ahead(solution: Solution) -> bool:
    """Tell whether a compiler makes something of a solution before any of it is loaded."""
    spec = solution.spec
    return isinstance(BUILDERS.get((spec.language, spec.effective_binding)), Compiling)


def is_left_to_compile(solution: Solution, arch: str | None, cache_root: Path) -> bool:
    """Tell whether `compile_ahead` would compile something; False where that fails at once."""
    spec = solution.spec
    builder = BUILDERS.get((spec.language, spec.effective_binding))
    if not isinstance(builder, Compiling):
        return False
    cache = BuildCache(solution_folder(cache_root, solution))
    try:
        _equipped_builder(solution)
        gpu = Gpu(arch or DEFAULT_ARCH) if needs_nvcc(solution) else None
        return not builder.is_compiled(solution, cache, facts_of(solution, gpu))
    except BuildError:
        return False


def require_toolchain(solution: Solution, arch: str | None = None) -> None:
    """Raise `ToolchainMissingError` when something that a build of this solution needs is not installed.

    Nothing is built, and no code of the solution runs. `arch` is the GPU architecture asked for.
    """
    _equipped_builder(solution)
    if solution.spec.language in ("cpp", "cuda"):
        libraries = find_libraries(solution)
        if needs_nvcc(solution):
            require_headers(solution, require_toolkit(solution), libraries.include_folders)
        return
    require_dependencies(solution)
    if solution.spec.language == "triton" and arch is not None:
        require_triton_compiler(solution, arch)


def _equipped_builder(solution: Solution, builders: Sequence[Builder] | None = None) -> Builder:
    builder = next((each for each in builders or () if each.can_build(solution)), None)
    if builder is None:
        if builders is not None:
            raise ToolchainMissingError(
                f"solution {solution.name!r}: none of the builders can build it"
            )
        builder = find_builder(solution)
    spec, needed = solution.spec, builder
    if spec.language == "cuda" and not needs_nvcc(solution):  # C++ for the CPU asks for no toolkit
        needed = BUILDERS.get(("cpp", spec.effective_binding), builder)
    missing = needed.missing_tool()
    if missing is not None:
        raise ToolchainMissingError(f"solution {solution.name!r} cannot be built here: {missing}")
    return builder


def find_builder(solution: Solution) -> Builder:
    """Find the builder of the solution's language and binding.

    Raises `ToolchainMissingError`, which names those there are.
    """
    spec = solution.spec
    binding = spec.effective_binding
    builder = BUILDERS.get((spec.language, binding))
    if builder is None:
        raise ToolchainMissingError(
            f"solution {solution.name!r}: no builder for {_described(spec.language, binding)}; "
            f"supported are {', '.join(_described(*key) for key in BUILDERS)}"
        )
    return builder


def _described(language: str, binding: str | None) -> str:
    return f"{language} with {binding}" if binding else str(language)


class BuilderRegistry:
    """Builds each (solution, definition) once and remembers the result, a `BuildError` too."""

    def __init__(
        self,
        builders: Sequence[Builder | DefinitionBuilder] | None = None,
        *,
        cache_root: Path | None = None,
    ) -> None:
        self._builders = None if builders is None else tuple(builders)
        self._cache_root = cache_root
        self._results: dict[tuple[str, str], tuple[Definition, Runnable | BuildError]] = {}

    @classmethod
    def get_instance(cls) -> BuilderRegistry:
        """Give the registry that this process shares."""
        return _shared()

    def build(self, definition: Definition, solution: Solution) -> Runnable:
        """Build `solution`, once; the same code under two names gives two runnables."""
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
            runnable = self._built(definition, solution)
        except BuildError as error:
            return error
        runnable.metadata = replace(runnable.metadata, definition=definition)
        return runnable

    def _built(self, definition: Definition, solution: Solution) -> Runnable:
        ours: list[Builder] = []
        for builder in self._builders or ():
            if isinstance(builder, DefinitionBuilder):
                if builder.is_available() and builder.can_build(solution):
                    return builder.build(definition, solution)
                continue
            ours.append(builder)
            if builder.can_build(solution):
                break
        return build(
            solution,
            definition.signature(),
            cache_root=self._cache_root,
            builders=None if self._builders is None else ours,
        )


@cache
def _shared() -> BuilderRegistry:
    return BuilderRegistry()
