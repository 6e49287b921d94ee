"""Which libraries a solution will import at its first call: the fork server imports them once, for all.

They take seconds: a gradient imports SymPy, a Triton kernel Gluon. What is named here is ours to choose, never the
solution's; what a source names in vain costs an import. `torch.compile` is not here: Dynamo and Inductor read
variables when they are imported, which a solution may set, and note folders of the process that imports them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flashinfer_bench.data import Solution

_GRADIENT = re.compile(r"\bautograd\b|\.backward\(")
_OF_GRADIENTS = ("torch.fx.experimental.symbolic_shapes",)
_OF_TRITON = ("triton", "triton.experimental.gluon", "triton.runtime.cache:triton_key")
"""Its first call imports Gluon, and digests the package's files (half a second) for the keys of its cache."""


def libraries_of(solution: Solution, device: str) -> tuple[str, ...]:
    """Name the modules that a process of this solution will need."""
    has_gradient = any(_GRADIENT.search(each.content) for each in solution.sources)
    # On a CPU Triton is told to interpret before it is imported.
    is_triton = solution.spec.language == "triton" and device != "cpu"
    return (*(_OF_GRADIENTS if has_gradient else ()), *(_OF_TRITON if is_triton else ()))
