"""The values of a trace, numbered by kind as they appear."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from flashinfer_bench.decompose.ir import Value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import torch

    from flashinfer_bench.decompose.ir import Kind

_LETTERS: Mapping[Kind, str] = {
    "input": "i", "param": "p", "buffer": "b", "const": "c", "inter": "v",
}  # fmt: skip


class Values(dict[str, Value]):
    """Values by their ids: `i0`, `p0`, `v0`, `v1` and so on."""

    def __init__(self) -> None:
        super().__init__()
        self._counts: Counter[str] = Counter()

    def add(
        self, kind: Kind, tensor: torch.Tensor, name: str, aliases: tuple[str, ...] = ()
    ) -> str:
        """Describe a tensor as a new value; returns its id."""
        letter = _LETTERS[kind]
        made = f"{letter}{self._counts[letter]}"
        self._counts[letter] += 1
        self[made] = Value(
            id=made,
            shape=tuple(tensor.shape),
            dtype=str(tensor.dtype).removeprefix("torch."),
            kind=kind,
            name=name,
            aliases=aliases,
            strides=None if tensor.is_contiguous() else tuple(map(int, tensor.stride())),
        )
        return made


def place_in(tensors: Sequence[torch.Tensor], tensor: torch.Tensor) -> int:
    """Find where an object stands among others."""
    return next(number for number, each in enumerate(tensors) if each is tensor)
