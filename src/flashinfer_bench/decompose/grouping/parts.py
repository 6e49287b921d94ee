"""A node under construction: the operations that do work, not yet the data movement around them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from flashinfer_bench.decompose.classes import Class
    from flashinfer_bench.decompose.grouping.facts import Frame
    from flashinfer_bench.decompose.ir import Level


@dataclass(frozen=True, eq=False)
class TracePart:
    """A leaf with its operations, or a parent with its children; equal only to itself."""

    level: Level
    name: str
    reason: str
    ops: tuple[int, ...] = ()
    """Of a leaf: what does its work."""
    children: tuple[TracePart, ...] = ()
    frame: Frame | None = None
    """The module or function whose data movement belongs to it; none for a chain or a single operation."""
    home: Frame = ()
    """The innermost frame that contains it."""
    cls: Class = "EW"
    """Of a leaf: how it counts when chains are made."""
    opaque: str | None = None
    is_decided: bool = False
    """Whether a person wants this node, so that no rule dissolves it."""
    tags: tuple[str, ...] = ()

    @property
    def is_leaf(self) -> bool:
        """Whether it is a kernel."""
        return not self.children

    def leaves(self) -> Iterator[TracePart]:
        """Its kernels, in order; itself if it is one."""
        if self.is_leaf:
            yield self
        for child in self.children:
            yield from child.leaves()

    def frames(self) -> Iterator[Frame]:
        """Frames that it and the parts below it stand for: their data movement is theirs."""
        if self.frame is not None:
            yield self.frame
        for child in self.children:
            yield from child.frames()

    def work(self) -> tuple[int, ...]:
        """Operations of all its kernels, ascending."""
        return tuple(sorted(op for leaf in self.leaves() for op in leaf.ops))

    def last(self) -> int:
        """Its last operation, by which parts are put in order."""
        return max(leaf.ops[-1] for leaf in self.leaves())


def is_decided(units: Iterable[TracePart]) -> bool:
    """Whether a node a person wants is among some parts or inside one."""
    return any(unit.is_decided or is_decided(unit.children) for unit in units)


def flattened(units: Iterable[TracePart]) -> tuple[TracePart, ...]:
    """The kernels of some parts, in an order in which they ran."""
    return in_order(leaf for unit in units for leaf in unit.leaves())


def in_order(units: Iterable[TracePart]) -> tuple[TracePart, ...]:
    """Order parts by their last operation, when all they need has been made."""
    return tuple(sorted(units, key=TracePart.last))


def count(units: Iterable[TracePart]) -> int:
    """How many kernels some parts hold."""
    return sum(1 for unit in units for _ in unit.leaves())


def renamed(part: TracePart, *, name: str, frame: Frame, reason: str) -> TracePart:
    """Let a part stand for a frame of which it is all."""
    return replace(part, name=name, frame=frame, home=frame[:-1], reason=reason)
