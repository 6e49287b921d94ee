"""Which parts of torch and Triton a solution will import at its first call: the fork server imports them once, for all.

They take seconds: a gradient imports SymPy, `torch.compile` all of Dynamo and Inductor. What is named here is ours to
choose, never the solution's; what a source names in vain costs an import.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flashinfer_bench.data import Solution

_GRADIENTS = ("torch.fx.experimental.symbolic_shapes",)
_COMPILER = (*_GRADIENTS, "torch._dynamo", "torch._inductor.compile_fx")
_TRITON = ("triton", "triton.experimental.gluon", "triton.runtime.cache:triton_key")
"""Its first call imports Gluon, and digests the package's files (half a second) for the keys of its cache."""
_IMPORTED_BY = (
    (re.compile(r"\bautograd\b|\.backward\("), _GRADIENTS),
    (re.compile(r"\btorch\.compile\b|\btorch\._inductor\b"), _COMPILER),
)
_SETTINGS = re.compile(r"\bTORCH[A-Z]*_[A-Z_]+")
"""Variables that these libraries read when they are imported."""


def libraries_of(solution: Solution, device: str) -> tuple[str, ...]:
    """Name the modules that a process of this solution will need."""
    if sets_variables(solution):
        return ()
    text = _text(solution)
    found = [name for pattern, names in _IMPORTED_BY if pattern.search(text) for name in names]
    if solution.spec.language == "triton" and device != "cpu":  # interpreted, it is another one
        found += _TRITON
    return tuple(dict.fromkeys(found))


def sets_variables(solution: Solution) -> bool:
    """Tell whether a solution may set a variable that torch reads at an import: it needs an interpreter of its own."""
    text = _text(solution)
    return _SETTINGS.search(text) is not None and any(
        pattern.search(text) for pattern, _ in _IMPORTED_BY
    )


def _text(solution: Solution) -> str:
    """Give its Python: `TORCH_CHECK` of C++ is no variable."""
    return "\n".join(each.content for each in solution.sources if each.path.endswith(".py"))
