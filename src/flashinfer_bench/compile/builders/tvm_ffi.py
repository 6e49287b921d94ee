"""C++ and CUDA sources bound with tvm-ffi: seconds to compile, half a microsecond to call.

A solution exports its entry point with `TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, function)`; tensors
arrive as `tvm::ffi::TensorView`, scalars as `int64_t`, `double` or `bool`.
"""

from __future__ import annotations

import importlib.util
import json
import re
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flashinfer_bench.compile.cache import build_key, package_name
from flashinfer_bench.compile.compiler import Recipe, missing_compiler
from flashinfer_bench.compile.cuda import missing_toolkit
from flashinfer_bench.compile.native import NotLoadableError, examined, find_toolchain, metadata_of
from flashinfer_bench.compile.runnable import Runnable
from flashinfer_bench.compile.signature import (
    PlannedCall,
    entry_call,
    plan_call,
    prepare_call,
    require_arity,
)
from flashinfer_bench.errors import BuildError
from flashinfer_bench.tensors.machine import package_version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from flashinfer_bench.compile.cache import BuildCache
    from flashinfer_bench.compile.native import Toolchain
    from flashinfer_bench.compile.targets import BuildTarget
    from flashinfer_bench.data import Signature, Solution

_KIND = "tvm_ffi"
# The symbol of an exported function is `__tvm_ffi_<name>`; `_metadata_` and `_doc_` describe it.
_EXPORT = re.compile(rb"\0__tvm_ffi_(?!_metadata_|_doc_)(\w+)(?=\0)")


class TvmFfiBuilder:
    """Builds `cpp` or `cuda` solutions with binding `tvm-ffi`, the default."""

    def __init__(self, language: str) -> None:
        self.handles = (language, "tvm-ffi")

    def missing_tool(self) -> str | None:
        """Say what to install when the binding or the compiler is not here."""
        if importlib.util.find_spec("tvm_ffi") is None:
            return "apache-tvm-ffi is not installed: pip install 'flashinfer-bench[torch]'"
        return missing_toolkit() if self.handles[0] == "cuda" else missing_compiler()

    def can_build(self, solution: Solution) -> bool:
        """Take what asks for tvm-ffi or for no binding."""
        return (solution.spec.language, solution.spec.effective_binding) == self.handles

    def build(
        self, solution: Solution, signature: Signature, cache: BuildCache, target: BuildTarget
    ) -> Runnable:
        """Compile unless it was, load the library if it can run here, check the exported functions."""
        toolchain = find_toolchain(solution, target, _recipe)
        with self._compiled(solution, cache, toolchain) as library:
            if toolchain.absence is None:
                return _runnable(solution, signature, library)
            return _examined(solution, signature, library).elsewhere(toolchain.absence)

    def compile(self, solution: Solution, cache: BuildCache, target: BuildTarget) -> None:
        """Compile unless it was, and load nothing."""
        with self._compiled(solution, cache, find_toolchain(solution, target, _recipe)):
            pass

    def is_compiled(self, solution: Solution, cache: BuildCache, facts: dict[str, str]) -> bool:
        """Tell whether the binary of such facts is there."""
        return cache.has(_KIND, _package(solution, facts))

    @contextmanager
    def _compiled(
        self, solution: Solution, cache: BuildCache, toolchain: Toolchain
    ) -> Iterator[Path]:
        package = _package(solution, toolchain.facts)
        make = partial(toolchain.compile, solution, f"{package}.so")
        with cache.folder(_KIND, package, make) as folder:
            yield folder / f"{package}.so"


def _package(solution: Solution, facts: dict[str, str]) -> str:
    facts = facts | {"tvm_ffi": package_version("apache-tvm-ffi")}
    key = build_key(solution.hash(), builder="tvm-ffi-2", toolchain=facts)
    return package_name("tvm_ffi_", solution.name, key)


def _recipe() -> Recipe:
    from tvm_ffi import libinfo  # noqa: PLC0415

    library = Path(libinfo.find_libtvm_ffi())
    return Recipe(
        standard="c++17",
        include_folders=(libinfo.find_include_path(), libinfo.find_dlpack_include_path()),
        library_folders=(str(library.parent),),
        libraries=(library.stem.removeprefix("lib"),),
        defines=("TVM_FFI_DLL_EXPORT_INCLUDE_METADATA=1",),  # functions tell their parameters
        link_flags=("-Wl,-z,defs",),  # a missing symbol is a compile error, not a crash
    )


def _examined(solution: Solution, signature: Signature, library: Path) -> Runnable:
    """Check a library for another machine."""

    def require(name: str) -> None:
        if name not in _exported(library):
            raise BuildError(_not_exported(solution, name, library)) from None

    metadata = metadata_of(solution, signature, library, build_type="tvm_ffi")
    return examined(lambda: _runnable(solution, signature, library), solution, metadata, require)


def _runnable(solution: Solution, signature: Signature, library: Path) -> Runnable:
    from tvm_ffi import load_module  # noqa: PLC0415

    spec = solution.spec
    try:
        module = load_module(str(library))
    except (RuntimeError, OSError) as error:
        message = f"solution {solution.name!r}: the compiled library does not load"
        raise NotLoadableError(message, log=str(error)) from error

    def function(name: str, call: PlannedCall) -> Callable[..., Any]:
        try:
            found: Callable[..., Any] = module.get_function(name)
        except AttributeError:
            raise BuildError(_not_exported(solution, name, library)) from None
        _require_arity(module, name, call)
        return found

    return Runnable(
        function(solution.get_entry_symbol(), entry_call(solution, signature)),
        metadata_of(solution, signature, library, build_type="tvm_ffi"),
        prepare=function(spec.prepare, prepare_call(solution, signature)) if spec.prepare else None,
        plan=function(spec.plan, plan_call(solution, signature)) if spec.plan else None,
    )


def _exported(library: Path) -> set[str]:
    return {name.decode() for name in _EXPORT.findall(library.read_bytes())}


def _not_exported(solution: Solution, symbol: str, library: Path) -> str:
    return (
        f"solution {solution.name!r} exports no function {symbol!r} through tvm-ffi; "
        f"it exports {', '.join(sorted(_exported(library))) or 'none'}. "
        f"Export it with TVM_FFI_DLL_EXPORT_TYPED_FUNC({symbol}, <C++ function>);"
    )


def _require_arity(module: Any, symbol: str, call: PlannedCall) -> None:
    """Check the number of parameters where the function was exported with its description."""
    description = module.get_function_metadata(symbol) or {}
    schema = json.loads(description.get("type_schema", "{}"))
    if "named_args" in schema:
        require_arity(len(schema["named_args"].get("params", ())), call)
    elif "args" in schema:  # before tvm-ffi 0.1.13: the result, then the parameters
        require_arity(len(schema["args"]) - 1, call)
