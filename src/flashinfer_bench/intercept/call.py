"""A library's call, said in the words of a definition."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def as_it_is(value: Any) -> Any:
    """Give the value back: what a definition returns is what the library returns."""
    return value


@dataclass(frozen=True, slots=True)
class Call:
    """One way to read a library's call as a call of a definition.

    Which definition it is, is looked up in a dataset: by one of `names`, or by op type, with shapes, dtypes and
    attributes that fit.
    """

    args: tuple[Any, ...]
    """Inputs in the definition's order."""
    op_types: frozenset[str]
    """Op types of definitions that say the same."""
    names: tuple[str, ...] = ()
    """Names such a definition has by convention; they come first."""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    """What a definition has baked into its reference: `{"eps": 1e-5}`."""
    give_back: Callable[[Any], Any] = as_it_is
    """From the definition's outputs to what the library returns; writes in place where the library does."""
    outputs_of: Callable[[Any], Any] = as_it_is
    """From what the library returned to the definition's outputs."""
    output_count: int | None = None
    """How many outputs the definition must have for `give_back` and `outputs_of` to fit; None: any number."""


@dataclass(frozen=True, slots=True)
class Unplaced:
    """A library's call that is left to the library."""

    name: str
    """What its definition would be called, or the target."""
    reason: str

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"
