"""A PyTorch model becomes a tree of layers, fusions and kernels, verified and ready to be benchmarked.

The package can be called: `fib.decompose(module, example_inputs)`. Importing it does not import torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from flashinfer_bench.callable_package import make_callable

if TYPE_CHECKING:
    from flashinfer_bench.decompose.pipeline import Decomposition as Decomposition
    from flashinfer_bench.decompose.pipeline import decompose as decompose

__all__ = ["Decomposition", "decompose"]

_HOME = f"{__name__}.pipeline"


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME), name)


make_callable(__name__, home=_HOME, function="decompose")
