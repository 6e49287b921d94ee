"""Caches of functions: what `functools.lru_cache` kept from another run is made anew, so that the run shows how."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import nn


def forget_cached(model: nn.Module) -> None:
    """Empty the caches of all functions and methods in the modules that a model's classes come from."""
    homes = {cls.__module__ for each in model.modules() for cls in type(each).__mro__}
    for home in homes:
        if home.partition(".")[0] not in ("torch", "builtins") and home in sys.modules:
            for cached in _cached_in(home):
                cached.cache_clear()


def _cached_in(home: str) -> Iterator[Any]:
    for value in list(vars(sys.modules[home]).values()):
        yield from _caches_of(value)
        if isinstance(value, type) and value.__module__ == home:
            for each in list(vars(value).values()):
                yield from _caches_of(getattr(each, "__func__", each))


def _caches_of(function: Any) -> Iterator[Any]:
    """Find the cache that a function is, or that a decorator has put around it."""
    if isinstance(function, functools._lru_cache_wrapper):
        yield function
    for cell in getattr(function, "__closure__", None) or ():
        try:
            inner = cell.cell_contents
        except ValueError:  # not filled yet
            continue
        if isinstance(inner, functools._lru_cache_wrapper):
            yield inner
