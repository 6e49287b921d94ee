"""A package that is a function as well: `fib.apply(...)` beside `flashinfer_bench.apply.ApplyConfig`."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any


def make_callable(package: str, *, home: str, function: str) -> None:
    """Let the module `package` be called as `function` of the module `home`, which is loaded by the first call."""

    class Package(ModuleType):
        @staticmethod
        def __call__(*args: Any, **kwargs: Any) -> Any:
            found = getattr(importlib.import_module(home), function)
            Package.__call__ = staticmethod(found)  # type: ignore[method-assign]  # later calls go straight there
            return found(*args, **kwargs)

    sys.modules[package].__class__ = Package
