"""From source text to a callable; every name is loaded when first asked for."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flashinfer_bench.compile.builder import Builder as Builder
    from flashinfer_bench.compile.builder import BuilderRegistry as BuilderRegistry
    from flashinfer_bench.compile.builder import build as build
    from flashinfer_bench.compile.runnable import CallStyle as CallStyle
    from flashinfer_bench.compile.runnable import Runnable as Runnable
    from flashinfer_bench.compile.runnable import RunnableMetadata as RunnableMetadata
    from flashinfer_bench.errors import BuildError as BuildError

_HOMES = {
    "BuildError": "flashinfer_bench.errors",
    "Builder": "flashinfer_bench.compile.builder",
    "BuilderRegistry": "flashinfer_bench.compile.builder",
    "CallStyle": "flashinfer_bench.compile.runnable",
    "Runnable": "flashinfer_bench.compile.runnable",
    "RunnableMetadata": "flashinfer_bench.compile.runnable",
    "build": "flashinfer_bench.compile.builder",
}

__all__ = sorted(_HOMES)  # noqa: PLE0605 - one table says both name and home


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
