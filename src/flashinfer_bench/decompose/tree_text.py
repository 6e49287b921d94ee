"""The tree as lines of text, for the screen and the README."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import TYPE_CHECKING

from flashinfer_bench.decompose.costs import launches_cost
from flashinfer_bench.decompose.grouping.repeats import signature
from flashinfer_bench.decompose.ir import Node, OpTrace, interface

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping, Sequence

MAX_SHAPES = 2
"""Shapes named on either side of the arrow; more are counted."""


@dataclass(frozen=True)
class _Row:
    """One line: the branch with the name, and what stands in the columns."""

    branch: str
    columns: tuple[str, ...]


def tree_text(
    trace: OpTrace,
    tree: Node,
    identities: Mapping[str, str] | None = None,
    *,
    levels: int | None = None,
    shares: Mapping[str, float] | None = None,
) -> tuple[str, ...]:
    """Draw a tree: each node with its level, kernels, shapes, arithmetic and share of the model's.

    Equal neighbours are one line with how often they occur, and its arithmetic is that of all of them.
    `identities` names what is equal (node id → name), else operations, shapes and attributes are compared.
    `levels` ends the drawing that far below the root. `shares` (node id → part of 1) takes the place of the
    share of arithmetic, for measured times.
    """
    drawing = _Drawing(trace, identities, levels, shares, launches_cost(trace, tree).flops)
    return _aligned([*drawing.rows([tree], stem="", depth=0)])


@dataclass(frozen=True)
class _Drawing:
    trace: OpTrace
    identities: Mapping[str, str] | None
    levels: int | None
    shares: Mapping[str, float] | None
    total_flops: int

    def rows(
        self, same: Sequence[Node], *, stem: str, depth: int, mark: str = "", times: int = 1
    ) -> Iterator[_Row]:
        """A node and all below it; `same` are its instances all over the tree, `times` those in one parent."""
        first = same[0]
        count = f" × {times}" if times > 1 else ""
        yield _Row(f"{stem}{mark}{first.name}{count}", self._columns(same))
        if self.levels is not None and depth >= self.levels:
            return
        below = stem + {"": "", "├─ ": "│  ", "└─ ": "   "}[mark]
        groups = self._groups(first)
        for start, end in groups:
            instances = [child for node in same for child in node.children[start:end]]
            branch = "└─ " if end == len(first.children) else "├─ "
            yield from self.rows(
                instances, stem=below, depth=depth + 1, mark=branch, times=end - start
            )

    def _groups(self, node: Node) -> list[tuple[int, int]]:
        """Where runs of equal children start and end."""
        lengths = [len(list(group)) for _, group in groupby(node.children, key=self._same)]
        ends = [*accumulate(lengths)]
        return [(end - length, end) for length, end in zip(lengths, ends, strict=True)]

    def _same(self, node: Node) -> Hashable:
        if self.identities is not None and node.id in self.identities:
            return self.identities[node.id]
        return repr((node.level, signature(self.trace, node.all_ops())))

    def _columns(self, same: Sequence[Node]) -> tuple[str, ...]:
        first = same[0]
        kernels = sum(node.is_leaf for node in first.walk())
        flops = sum(launches_cost(self.trace, node).flops for node in same)
        notes = [tag for tag in first.tags if tag == "stochastic"]
        notes += ["opaque"] if first.opaque else []
        return (
            first.level,
            "" if first.is_leaf else f"{kernels} kernels",
            self._shapes(first),
            f"{amount(flops)}FLOP" if flops else "-",
            self._share(same, flops),
            " ".join(notes),
        )

    def _share(self, same: Sequence[Node], flops: int) -> str:
        if self.shares is not None:
            return f"{sum(self.shares.get(node.id, 0.0) for node in same):.1%}"
        return f"{flops / self.total_flops:.1%}" if self.total_flops else "-"

    def _shapes(self, node: Node) -> str:
        ports = interface(self.trace, node.all_ops())
        values = self.trace.values
        given = [value for value in ports.inputs if values[value].kind in ("input", "inter")]
        return f"{self._listed(given)} → {self._listed(ports.outputs)}"

    def _listed(self, values: Sequence[str]) -> str:
        shapes = [
            "×".join(map(str, self.trace.values[value].shape)) or "scalar" for value in values
        ]
        extra = len(shapes) - MAX_SHAPES
        return ", ".join([*shapes[:MAX_SHAPES], *([f"{extra} more"] if extra > 0 else [])]) or "-"


def _aligned(rows: Sequence[_Row]) -> tuple[str, ...]:
    """Put the columns under one another, without spaces at the ends of lines."""
    table = [(row.branch, *row.columns) for row in rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return tuple(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in table
    )


def amount(number: float) -> str:
    """A number with three digits and the prefix of its size.

    >>> amount(0), amount(999), amount(999_900), amount(1234567), amount(52_000_000_000)
    ('0 ', '999 ', '1 M', '1.23 M', '52 G')
    """
    for prefix in ("", "k", "M", "G", "T", "P"):
        number = float(f"{number:.3g}")  # first, lest 999.9 become 1e+03
        if number < 1000 or prefix == "P":  # noqa: PLR2004
            return f"{number:.3g} {prefix}"
        number /= 1000
    raise AssertionError("the last prefix ends the loop")
