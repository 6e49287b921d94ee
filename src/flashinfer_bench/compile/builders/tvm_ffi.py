"""C++ sources bound with tvm-ffi: a second to compile, half a microsecond to call.

A solution exports its entry point with `TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, function)`; tensors
arrive as `tvm::ffi::TensorView`, scalars as `int64_t`, `double` or `bool`.
"""

from __future__ import annotations

import importlib.util
import json
import re
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
from flashinfer_bench.compile.signature import (
    Call,
    entry_call,
    plan_call,
    prepare_call,
    require_arity,
)
from flashinfer_bench.compile.sources import require_entry_suffix, write_sources
from flashinfer_bench.errors import BuildError

if TYPE_CHECKING:
    from collections.abc import Callable

    from flashinfer_bench.compile.cache import BuildCache
    from flashinfer_bench.data import Signature, Solution

# The symbol of an exported function is `__tvm_ffi_<name>`; `_metadata_` and `_doc_` describe it.
_EXPORT = re.compile(rb"\0__tvm_ffi_(?!_metadata_|_doc_)(\w+)(?=\0)")


class TvmFfiBuilder:
    """Builds `cpp` solutions with binding `tvm-ffi`, the default."""

    handles = ("cpp", "tvm-ffi")

    def missing_tool(self) -> str | None:
        """Say what to install when the binding or the compiler is not here."""
        if importlib.util.find_spec("tvm_ffi") is None:
            return "apache-tvm-ffi is not installed: pip install 'flashinfer-bench[torch]'"
        return missing_compiler()

    def can_build(self, solution: Solution) -> bool:
        """Take C++ that asks for tvm-ffi or for no binding."""
        return (solution.spec.language, solution.spec.effective_binding) == self.handles

    def build(self, solution: Solution, signature: Signature, cache: BuildCache) -> Runnable:
        """Compile unless it was, load the library, check the exported functions."""
        import tvm_ffi  # noqa: PLC0415 - loads torch

        require_entry_suffix(solution, COMPILED_SUFFIXES)
        facts = toolchain_facts() | {"tvm_ffi": tvm_ffi.__version__}
        key = build_key(solution.hash(), builder="tvm-ffi-1", toolchain=facts)
        package = package_name("tvm_ffi_", solution.name, key)
        with cache.folder("tvm_ffi", package, partial(_compile, solution, package)) as folder:
            return _runnable(solution, signature, folder / f"{package}.so")


def _compile(solution: Solution, package: str, folder: Path) -> None:
    from tvm_ffi import libinfo  # noqa: PLC0415

    library = Path(libinfo.find_libtvm_ffi())
    recipe = Recipe(
        standard="c++17",
        include_folders=(libinfo.find_include_path(), libinfo.find_dlpack_include_path()),
        library_folders=(str(library.parent),),
        libraries=(library.stem.removeprefix("lib"),),
        defines=("TVM_FFI_DLL_EXPORT_INCLUDE_METADATA=1",),  # functions tell their parameters
        link_flags=("-Wl,-z,defs",),  # a missing symbol is a compile error, not a crash
    )
    write_sources(solution, folder)
    compile_library(solution, folder, f"{package}.so", recipe)


def _runnable(solution: Solution, signature: Signature, library: Path) -> Runnable:
    from tvm_ffi import load_module  # noqa: PLC0415

    spec = solution.spec
    symbol = solution.get_entry_symbol()
    try:
        module = load_module(str(library))
    except (RuntimeError, OSError) as error:
        message = f"solution {solution.name!r}: the compiled library does not load"
        raise BuildError(message, log=str(error)) from error

    def function(name: str, call: Call) -> Callable[..., Any]:
        try:
            found: Callable[..., Any] = module.get_function(name)
        except AttributeError:
            raise BuildError(_not_exported(solution, name, library)) from None
        _require_arity(module, name, call)
        return found

    metadata = RunnableMetadata.of(
        solution,
        signature,
        build_type="tvm_ffi",
        misc={"folder": str(library.parent), "entry_symbol": symbol, "binary": str(library)},
    )
    return Runnable(
        function(symbol, entry_call(solution, signature)),
        metadata,
        prepare=function(spec.prepare, prepare_call(solution, signature)) if spec.prepare else None,
        plan=function(spec.plan, plan_call(solution, signature)) if spec.plan else None,
    )


def _not_exported(solution: Solution, symbol: str, library: Path) -> str:
    exported = {name.decode() for name in _EXPORT.findall(library.read_bytes())}
    return (
        f"solution {solution.name!r} exports no function {symbol!r} through tvm-ffi; "
        f"it exports {', '.join(sorted(exported)) or 'none'}. "
        f"Export it with TVM_FFI_DLL_EXPORT_TYPED_FUNC({symbol}, <C++ function>);"
    )


def _require_arity(module: Any, symbol: str, call: Call) -> None:
    """Check the number of parameters where the function was exported with its description."""
    description = module.get_function_metadata(symbol) or {}
    schema = json.loads(description.get("type_schema", "{}"))
    parameters = schema.get("named_args", {}).get("params")
    if parameters is not None:
        require_arity(len(parameters), call)
