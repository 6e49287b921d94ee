"""`apply`: a call, or a function, that the best solution answers; and its switch for a whole process."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, overload

from flashinfer_bench.errors import BenchError
from flashinfer_bench.intercept.call import Unplaced
from flashinfer_bench.intercept.chain import CHAIN, no_fallback
from flashinfer_bench.intercept.compiled import (
    as_operator,
    is_exporting,
    needs_gradient,
    outputs_like,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from flashinfer_bench.apply.config import ApplyConfig, ApplyConfigRegistry
    from flashinfer_bench.apply.runtime import ApplyRuntime
    from flashinfer_bench.intercept import Adapter


Resolver = Callable[..., str]
"""Takes the call's arguments and names its definition."""
_LINKS = CHAIN.links


@overload
def apply(
    def_name_or_resolver: str | Resolver,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]: ...
@overload
def apply(
    def_name_or_resolver: str | Resolver,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    fallback: Callable[..., Any] | None = None,
) -> Any: ...
@overload
def apply(
    def_name_or_resolver: str | Resolver,
    args: tuple[Any, ...] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    fallback: Callable[..., Any] | None = None,
) -> Any: ...


def apply(
    def_name_or_resolver: str | Resolver,
    args: tuple[Any, ...] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    fallback: Callable[..., Any] | None = None,
) -> Any:
    """Answer a call of a definition: by its best solution where apply is enabled, else by the fallback.

    Without `args` and `kwargs` it gives a decorator; the decorated function is then the fallback. Raises
    `NoFallbackError` where nothing answers.
    """
    if args is None and kwargs is None:
        return functools.partial(_decorated, def_name_or_resolver)
    args, kwargs = args or (), kwargs or {}
    name = (
        def_name_or_resolver
        if isinstance(def_name_or_resolver, str)
        else def_name_or_resolver(*args, **kwargs)
    )
    try:
        link = _LINKS[name]
    except KeyError:
        link = CHAIN.link(name)
    return link(args, kwargs, fallback or no_fallback(name))


def _decorated(
    def_name_or_resolver: str | Resolver, function: Callable[..., Any]
) -> Callable[..., Any]:
    active, links = CHAIN.active, CHAIN.links
    if isinstance(def_name_or_resolver, str):
        name = def_name_or_resolver

        @functools.wraps(function)
        def applied(*args: Any, **kwargs: Any) -> Any:
            if active:
                if CHAIN.is_compiling():
                    return compiled(*args, **kwargs)
                try:
                    link = links[name]
                except KeyError:
                    link = CHAIN.link(name)
                return link(args, kwargs, function)
            if kwargs:
                return function(*args, **kwargs)
            return function(*args)  # most calls; a dictionary less to unpack

        compiled = _compiled(name, function, applied)
        return applied
    resolver = def_name_or_resolver

    @functools.wraps(function)
    def resolved(*args: Any, **kwargs: Any) -> Any:
        if not active:
            return function(*args, **kwargs)
        return CHAIN.call(resolver(*args, **kwargs), args, kwargs, function)

    return resolved


def _compiled(
    name: str, function: Callable[..., Any], applied: Callable[..., Any]
) -> Callable[..., Any]:
    """Make what the compiler sees of a decorated function: an operator, where a handler knows the definition."""
    target = f"{name}@{function.__module__}.{function.__qualname__}"

    def as_operator_or_itself(*args: Any, **kwargs: Any) -> Any:
        definition = CHAIN.described(name)
        values = (*args, *kwargs.values())
        if definition is None or CHAIN.inside.solution or is_exporting():
            return function(*args, **kwargs)
        why = "a gradient is needed" if needs_gradient(values) else None
        if why is None and len(values) != len(definition.inputs):
            why = "outputs are passed in"
        if why is not None:
            CHAIN.leave_compiled(Unplaced(name, f"compiled, and {why}"))
            return function(*args, **kwargs)

        def fake(*args: Any, **kwargs: Any) -> Any:
            return outputs_like(definition)(*definition.merge_kwargs_to_args(args, kwargs))

        return as_operator(target, args, kwargs, call=applied, fake=fake)

    def is_described() -> bool:
        return CHAIN.described(name) is not None

    def compiled(*args: Any, **kwargs: Any) -> Any:
        if is_described():
            return as_operator_or_itself(*args, **kwargs)
        return function(*args, **kwargs)

    CHAIN.marks.as_constant(is_described)
    CHAIN.marks.as_one_call(as_operator_or_itself)
    return compiled


_LOG = logging.getLogger("flashinfer_bench.apply")


def enable_apply(
    dataset_path: str | Path | None = None,
    apply_config: ApplyConfig | ApplyConfigRegistry | None = None,
    *,
    adapters: Iterable[Adapter] | None = None,
) -> ApplyRuntime:
    """Start answering calls with the best solutions of a dataset; None is the one the environment names.

    The runtime is started when this returns; used in a `with`, it stops at the end. `adapters` says which library
    functions are patched: none for `()`, by default all registered ones that the dataset has solutions for.
    """
    from flashinfer_bench.apply.runtime import ApplyRuntime  # noqa: PLC0415 - torch comes with it
    from flashinfer_bench.data import TraceSet  # noqa: PLC0415

    trace_set = TraceSet.from_path(dataset_path)
    return ApplyRuntime(trace_set, apply_config, adapters=adapters).start()


def disable_apply() -> None:
    """Stop the runtime in force; without one, nothing happens. What fails is logged."""
    from flashinfer_bench.apply.runtime import RUNTIMES  # noqa: PLC0415

    runtime = RUNTIMES.top()
    if runtime is None:
        return
    try:
        runtime.stop()
    except BenchError as error:
        _LOG.warning("%s", error)


def start_from_environment() -> None:
    """Start what `FIB_ENABLE_APPLY=1` asks for, unless a runtime was started already."""
    from flashinfer_bench.apply.runtime import RUNTIMES  # noqa: PLC0415

    if not RUNTIMES.all():
        enable_apply()
