"""C++ sources that include `torch/extension.h`: all of ATen, and tens of seconds to compile.

A solution binds its functions with `PYBIND11_MODULE(TORCH_EXTENSION_NAME, m)`.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sysconfig
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flashinfer_bench.compile.cache import build_key, package_name
from flashinfer_bench.compile.compiler import (
    COMPILED_SUFFIXES,
    Recipe,
    compile_library,
    missing_compiler,
    toolchain_facts,
)
from flashinfer_bench.compile.runnable import Runnable, RunnableMetadata
from flashinfer_bench.compile.sources import require_entry_suffix, write_sources
from flashinfer_bench.errors import BuildError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from flashinfer_bench.compile.cache import BuildCache
    from flashinfer_bench.data import Signature, Solution

_SUFFIX = importlib.machinery.EXTENSION_SUFFIXES[0]  # names the Python ABI


class TorchExtensionBuilder:
    """Builds `cpp` solutions with binding `torch`."""

    handles = ("cpp", "torch")

    def missing_tool(self) -> str | None:
        """Say what to install when torch, Python's headers or the compiler are not here."""
        if importlib.util.find_spec("torch") is None:
            return "torch is not installed: pip install 'flashinfer-bench[torch]'"
        if not (Path(_python_headers()) / "Python.h").is_file():
            return "Python.h is not installed (Debian, Ubuntu: apt-get install python3-dev)"
        return missing_compiler()

    def can_build(self, solution: Solution) -> bool:
        """Take C++ that asks for the torch binding."""
        return (solution.spec.language, solution.spec.effective_binding) == self.handles

    def build(self, solution: Solution, signature: Signature, cache: BuildCache) -> Runnable:
        """Compile unless it was, import the extension, find its functions."""
        import torch  # noqa: PLC0415

        require_entry_suffix(solution, COMPILED_SUFFIXES)
        facts = toolchain_facts() | {"torch": torch.__version__, "python": _SUFFIX}
        key = build_key(solution.hash(), builder="torch-1", toolchain=facts)
        package = package_name("torch_", solution.name, key)
        with cache.folder("torch", package, partial(_compile, solution, package)) as folder:
            return _runnable(solution, signature, folder / f"{package}{_SUFFIX}")


def _compile(solution: Solution, package: str, folder: Path) -> None:
    import torch  # noqa: PLC0415
    from torch.utils import cpp_extension  # noqa: PLC0415

    # The same defines, folders and libraries as torch.utils.cpp_extension.load, which itself
    # cannot compile without loading, and so not into a folder that is renamed afterwards.
    recipe = Recipe(
        standard="c++20",
        include_folders=(*cpp_extension.include_paths(), _python_headers()),
        library_folders=tuple(cpp_extension.library_paths()),
        libraries=("c10", "torch_cpu", "torch", "torch_python"),
        defines=(
            f"TORCH_EXTENSION_NAME={package}",
            "TORCH_API_INCLUDE_EXTENSION_H",
            f"_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
        ),
    )
    write_sources(solution, folder)
    compile_library(solution, folder, f"{package}{_SUFFIX}", recipe)


def _runnable(solution: Solution, signature: Signature, library: Path) -> Runnable:
    spec = solution.spec
    symbol = solution.get_entry_symbol()
    module = _load(solution, library)
    metadata = RunnableMetadata.of(
        solution,
        signature,
        build_type="torch",
        misc={"folder": str(library.parent), "entry_symbol": symbol, "binary": str(library)},
    )
    return Runnable(
        _function(solution, module, symbol),
        metadata,
        prepare=_function(solution, module, spec.prepare) if spec.prepare else None,
        plan=_function(solution, module, spec.plan) if spec.plan else None,
    )


def _load(solution: Solution, library: Path) -> ModuleType:
    name = library.name.removesuffix(_SUFFIX)
    spec = importlib.util.spec_from_file_location(name, library)
    assert spec is not None
    assert spec.loader is not None
    try:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    except ImportError as error:
        message = f"solution {solution.name!r}: the compiled extension does not load"
        raise BuildError(message, log=str(error)) from error
    return module


def _function(solution: Solution, module: ModuleType, symbol: str) -> Callable[..., Any]:
    found = vars(module).get(symbol)
    if not callable(found):
        defined = sorted(name for name, value in vars(module).items() if callable(value))
        raise BuildError(
            f"solution {solution.name!r} binds no function {symbol!r}; "
            f"it binds {', '.join(defined) or 'none'}. "
            f'Bind it with PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {{ m.def("{symbol}", …); }}'
        )
    function: Callable[..., Any] = found
    return function


def _python_headers() -> str:
    return sysconfig.get_path("include", scheme="posix_prefix")
