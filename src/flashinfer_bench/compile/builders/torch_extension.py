"""C++ and CUDA sources that include `torch/extension.h`: all of ATen, and tens of seconds to compile.

A solution binds its functions with `PYBIND11_MODULE(TORCH_EXTENSION_NAME, m)`.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sysconfig
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flashinfer_bench.compile.cache import build_key, package_name
from flashinfer_bench.compile.compiler import Recipe, missing_compiler
from flashinfer_bench.compile.cuda import missing_toolkit, needs_nvcc
from flashinfer_bench.compile.native import NotLoadableError, examined, find_toolchain, metadata_of
from flashinfer_bench.compile.runnable import Runnable
from flashinfer_bench.compile.undefined import with_place
from flashinfer_bench.errors import BuildError
from flashinfer_bench.tensors.machine import package_version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import ModuleType

    from flashinfer_bench.compile.cache import BuildCache
    from flashinfer_bench.compile.native import Toolchain
    from flashinfer_bench.compile.targets import BuildTarget
    from flashinfer_bench.data import Signature, Solution

_KIND = "torch"
_SUFFIX = importlib.machinery.EXTENSION_SUFFIXES[0]  # names the Python ABI


# As torch.utils.cpp_extension.load has them: ATen brings its own operators for half precision.
_CUDA_DEFINES = (
    "__CUDA_NO_HALF_OPERATORS__",
    "__CUDA_NO_HALF_CONVERSIONS__",
    "__CUDA_NO_BFLOAT16_CONVERSIONS__",
    "__CUDA_NO_HALF2_OPERATORS__",
)


class TorchExtensionBuilder:
    """Builds `cpp` or `cuda` solutions with binding `torch`."""

    def __init__(self, language: str) -> None:
        self.handles = (language, "torch")

    def missing_tool(self) -> str | None:
        """Say what to install when torch, Python's headers or the compiler are not here."""
        if importlib.util.find_spec("torch") is None:
            return "torch is not installed: pip install 'flashinfer-bench[torch]'"
        if not (Path(_python_headers()) / "Python.h").is_file():
            return "Python.h is not installed (Debian, Ubuntu: apt-get install python3-dev)"
        return missing_toolkit() if self.handles[0] == "cuda" else missing_compiler()

    def can_build(self, solution: Solution) -> bool:
        """Take what asks for the torch binding."""
        return (solution.spec.language, solution.spec.effective_binding) == self.handles

    def build(
        self, solution: Solution, signature: Signature, cache: BuildCache, target: BuildTarget
    ) -> Runnable:
        """Compile unless it was, import the extension if it can run here, find its functions."""
        toolchain = _toolchain(solution, target)
        with self._compiled(solution, cache, toolchain) as library:
            if toolchain.absence is None:
                return _runnable(solution, signature, library)
            return _examined(solution, signature, library).elsewhere(toolchain.absence)

    def compile(self, solution: Solution, cache: BuildCache, target: BuildTarget) -> None:
        """Compile unless it was, and load nothing."""
        with self._compiled(solution, cache, _toolchain(solution, target)):
            pass

    def is_compiled(self, solution: Solution, cache: BuildCache, facts: dict[str, str]) -> bool:
        """Tell whether the binary of such facts is there."""
        return cache.has(_KIND, _package(solution, facts))

    @contextmanager
    def _compiled(
        self, solution: Solution, cache: BuildCache, toolchain: Toolchain
    ) -> Iterator[Path]:
        package = _package(solution, toolchain.facts)
        named = replace(toolchain, recipe=lambda: _named(toolchain.recipe(), package))
        make = partial(named.compile, solution, f"{package}{_SUFFIX}")
        with cache.folder(_KIND, package, make) as folder:
            yield folder / f"{package}{_SUFFIX}"


def _package(solution: Solution, facts: dict[str, str]) -> str:
    facts = facts | {"torch": package_version("torch"), "python": _SUFFIX}
    key = build_key(solution.hash(), builder="torch-2", toolchain=facts)
    return package_name("torch_", solution.name, key)


def _toolchain(solution: Solution, target: BuildTarget) -> Toolchain:
    return find_toolchain(solution, target, lambda: _recipe(uses_cuda=needs_nvcc(solution)))


def _recipe(*, uses_cuda: bool) -> Recipe:
    """Give the defines, folders and libraries of torch.utils.cpp_extension.load.

    That function itself cannot compile without loading, and so not into a folder that is renamed
    afterwards.
    """
    import torch  # noqa: PLC0415
    from torch.utils import cpp_extension  # noqa: PLC0415

    libraries = ["c10", "torch_cpu", "torch", "torch_python"]
    folders = tuple(cpp_extension.library_paths())
    if uses_cuda:  # a torch without CUDA has not got them, and runs nothing on CUDA either
        more = (name for name in ("c10_cuda", "torch_cuda") if _has_library(folders, name))
        libraries += more
    return Recipe(
        standard="c++20",
        include_folders=(*cpp_extension.include_paths(), _python_headers()),
        library_folders=folders,
        libraries=tuple(libraries),
        defines=(
            "TORCH_API_INCLUDE_EXTENSION_H",
            f"_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
            *(_cuda_defines() if uses_cuda else ()),
        ),
    )


def _cuda_defines() -> tuple[str, ...]:
    """Add, for a torch without CUDA, what its CUDA headers want instead of a file it lacks."""
    from torch.utils import cpp_extension  # noqa: PLC0415

    folders = map(Path, cpp_extension.include_paths())
    if any((folder / "c10/cuda/impl/cuda_cmake_macros.h").is_file() for folder in folders):
        return _CUDA_DEFINES
    return (*_CUDA_DEFINES, "C10_USING_CUSTOM_GENERATED_MACROS")


def _named(recipe: Recipe, package: str) -> Recipe:
    """Tell the sources the name that `PYBIND11_MODULE` must take."""
    return replace(recipe, defines=(f"TORCH_EXTENSION_NAME={package}", *recipe.defines))


def _has_library(folders: Sequence[str], name: str) -> bool:
    return any((Path(folder) / f"lib{name}.so").is_file() for folder in folders)


def _examined(solution: Solution, signature: Signature, library: Path) -> Runnable:
    """Check an extension for another machine.

    The names of bound functions lie in the binary as texts; one that is not among them is not bound.
    """

    def require(name: str) -> None:
        if b"\0" + name.encode() + b"\0" not in library.read_bytes():
            raise BuildError(_not_bound(solution, name, found=())) from None

    metadata = metadata_of(solution, signature, library, build_type="torch")
    return examined(lambda: _runnable(solution, signature, library), solution, metadata, require)


def _runnable(solution: Solution, signature: Signature, library: Path) -> Runnable:
    spec = solution.spec
    module = _load(solution, library)
    return Runnable(
        _function(solution, module, solution.get_entry_symbol()),
        metadata_of(solution, signature, library, build_type="torch"),
        prepare=_function(solution, module, spec.prepare) if spec.prepare else None,
        plan=_function(solution, module, spec.plan) if spec.plan else None,
    )


def _load(solution: Solution, library: Path) -> ModuleType:
    import torch  # noqa: F401, PLC0415  # the extension is linked with its libraries

    name = library.name.removesuffix(_SUFFIX)
    spec = importlib.util.spec_from_file_location(name, library)
    assert spec is not None
    assert spec.loader is not None
    try:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    except ImportError as error:
        words = with_place(solution, str(error))
        why = words.partition("\n")[0]
        message = f"solution {solution.name!r} does not load: {why}"
        raise NotLoadableError(message, log=words) from error
    return module


def _function(solution: Solution, module: ModuleType, symbol: str) -> Callable[..., Any]:
    found = vars(module).get(symbol)
    if not callable(found):
        defined = sorted(name for name, value in vars(module).items() if callable(value))
        raise BuildError(_not_bound(solution, symbol, found=defined))
    function: Callable[..., Any] = found
    return function


def _not_bound(solution: Solution, symbol: str, *, found: Sequence[str]) -> str:
    return (
        f"solution {solution.name!r} binds no function {symbol!r}"
        f"{'; it binds ' if found else ''}{', '.join(found)}. "
        f'Bind it with PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {{ m.def("{symbol}", …); }}'
    )


def _python_headers() -> str:
    return sysconfig.get_path("include", scheme="posix_prefix")
