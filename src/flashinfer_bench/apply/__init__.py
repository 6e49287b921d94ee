"""A live call is answered by the best measured solution.

The package can be called: `fib.apply(name, args=..., fallback=...)`, or `@fib.apply(name)`. Importing it imports no
torch, patches nothing and starts nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from flashinfer_bench.callable_package import make_callable

if TYPE_CHECKING:
    from flashinfer_bench.apply.calling import apply as apply
    from flashinfer_bench.apply.calling import disable_apply as disable_apply
    from flashinfer_bench.apply.calling import enable_apply as enable_apply
    from flashinfer_bench.apply.config import ApplyConfig as ApplyConfig
    from flashinfer_bench.apply.config import ApplyConfigRegistry as ApplyConfigRegistry
    from flashinfer_bench.apply.config import get_default_registry as get_default_registry
    from flashinfer_bench.apply.runtime import ApplyRuntime as ApplyRuntime
    from flashinfer_bench.apply.stats import ApplyStats as ApplyStats
    from flashinfer_bench.apply.table import ApplyKey as ApplyKey

_HOMES = {
    "ApplyConfig": "config",
    "ApplyConfigRegistry": "config",
    "ApplyKey": "table",
    "ApplyRuntime": "runtime",
    "ApplyStats": "stats",
    "apply": "calling",
    "disable_apply": "calling",
    "enable_apply": "calling",
    "get_default_registry": "config",
}

__all__ = sorted(_HOMES)  # noqa: PLE0605 - one table says both name and home


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__


make_callable(__name__, home=f"{__name__}.calling", function="apply")
