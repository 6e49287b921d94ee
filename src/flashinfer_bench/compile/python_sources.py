"""Sources in Python, whatever the kernel language in them: imported and checked the same way."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from flashinfer_bench.compile import packages
from flashinfer_bench.compile.cache import build_key, package_name
from flashinfer_bench.compile.dependencies import require_dependencies
from flashinfer_bench.compile.runnable import Runnable, RunnableMetadata
from flashinfer_bench.compile.signature import (
    entry_call,
    plan_call,
    prepare_call,
    require_fit,
    require_return_count,
)
from flashinfer_bench.compile.sources import require_entry_suffix, write_sources
from flashinfer_bench.errors import BuildError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType

    from flashinfer_bench.compile.cache import BuildCache
    from flashinfer_bench.data import Signature, Solution


def build_python(
    solution: Solution,
    signature: Signature,
    cache: BuildCache,
    *,
    build_type: str,
    facts: Mapping[str, Any] | None = None,
    examine: Callable[[Runnable], str | None] = lambda _: None,
) -> Runnable:
    """Write the sources, import the entry file as a package of this process, check its functions.

    `build_type` names folder, package and build. `facts` are added to the metadata. `examine` looks
    at the runnable before it is given away and says why it cannot run here, if it cannot; whatever
    fails leaves neither folder nor package behind.
    """
    require_entry_suffix(solution, (".py",))
    require_dependencies(solution)
    key = build_key(solution.hash(), builder=f"{build_type}-1", toolchain={})
    package = package_name(f"fib_{build_type}_", solution.name, key)
    entry_path = solution.get_entry_path()
    with cache.folder(build_type, package, partial(write_sources, solution)) as folder:
        where = f"solution {solution.name!r}: {entry_path}"
        module = packages.import_module(folder, package, entry_path, where=where)
        release = partial(packages.release, folder, package)
        known = {
            "folder": str(folder),
            "module_name": module.__name__,
            "entry_symbol": solution.get_entry_symbol(),
        }
        try:
            entry, prepare, plan = _checked(solution, signature, module)
            metadata = RunnableMetadata.of(
                solution, signature, build_type=build_type, misc=known | dict(facts or {})
            )
            runnable = Runnable(entry, metadata, release, prepare=prepare, plan=plan)
            absence = examine(runnable)
        except BuildError:
            release()
            raise
        return runnable if absence is None else runnable.elsewhere(absence)


def _checked(
    solution: Solution, signature: Signature, module: ModuleType
) -> tuple[Callable[..., Any], Callable[..., Any] | None, Callable[..., Any] | None]:
    """Find the entry point, `prepare` and `plan`, and check that each fits its call."""
    spec = solution.spec
    call = entry_call(solution, signature)
    entry = _function(module, solution, solution.get_entry_symbol())
    require_fit(entry, call)
    if not spec.destination_passing_style:
        require_return_count(entry, signature, call)
    prepare = _function(module, solution, spec.prepare) if spec.prepare else None
    plan = _function(module, solution, spec.plan) if spec.plan else None
    if prepare is not None:
        require_fit(prepare, prepare_call(solution, signature))
    if plan is not None:
        require_fit(plan, plan_call(solution, signature))
    return entry, prepare, plan


def _function(module: ModuleType, solution: Solution, symbol: str) -> Callable[..., Any]:
    where = f"solution {solution.name!r}: {solution.get_entry_path()}"
    found = vars(module).get(symbol)
    if found is None:
        defined = sorted(
            name for name, value in vars(module).items() if callable(value) and name[0] != "_"
        )
        others = f"its functions are {', '.join(defined)}" if defined else "it has no functions"
        raise BuildError(f"{where} defines no {symbol!r}; {others}")
    if not callable(found):
        raise BuildError(f"{where}: {symbol!r} is of type {type(found).__name__}, not a function")
    function: Callable[..., Any] = found
    return function
