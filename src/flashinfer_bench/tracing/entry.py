"""One traced call that passed its filter."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class WorkloadEntry:
    """The sizes of a call, its scalars, and copies of the inputs that are written down."""

    def_name: str
    """Name of the definition."""
    axes: Mapping[str, int]
    """Lengths of the variable axes."""
    inputs_to_dump: Mapping[str, Any] = field(default_factory=dict)
    """Tensors by input name, on the CPU, nobody else's."""
    order: int = 0
    """Counts the entries of a runtime."""
    cuda_graph_snapshot: Any = None
    """Always None: calls under CUDA-graph capture are left out."""
    scalars: Mapping[str, bool | int | float] = field(default_factory=dict)
    """Values of the inputs without a shape."""

    @property
    def nbytes(self) -> int:
        """Memory its tensors hold."""
        return sum(int(tensor.nbytes) for tensor in self.inputs_to_dump.values())
