"""`apply`: a call, or a function, that the best solution answers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, overload

from flashinfer_bench.intercept.chain import CHAIN, no_fallback

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
                try:
                    link = links[name]
                except KeyError:
                    link = CHAIN.link(name)
                return link(args, kwargs, function)
            if kwargs:
                return function(*args, **kwargs)
            return function(*args)  # most calls; a dictionary less to unpack

        return applied
    resolver = def_name_or_resolver

    @functools.wraps(function)
    def resolved(*args: Any, **kwargs: Any) -> Any:
        if not active:
            return function(*args, **kwargs)
        return CHAIN.call(resolver(*args, **kwargs), args, kwargs, function)

    return resolved
