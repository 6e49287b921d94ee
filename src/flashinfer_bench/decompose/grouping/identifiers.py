"""Identifiers of nodes: unique in a tree, the same in every run."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flashinfer_bench.decompose.ir import Node


def identified(root: Node) -> Node:
    """Give the root and all below it their ids."""
    return _below(replace(root, id="root"), "")


def _below(node: Node, prefix: str) -> Node:
    seen: Counter[str] = Counter()
    children = []
    for child in node.children:
        step = f"{child.level}:{_label(node, child)}"
        seen[step] += 1
        again = f"~{seen[step]}" if seen[step] > 1 else ""
        path = f"{prefix}{step}{again}"
        children.append(_below(replace(child, id=path), f"{path}/"))
    return replace(node, children=tuple(children))


def _label(parent: Node, child: Node) -> str:
    """Where a child is, if it is a module of its own below the parent's, else what it is called."""
    if child.is_leaf or child.scope in ("", parent.scope):
        return child.name
    return child.scope.removeprefix(f"{parent.scope}." if parent.scope else "")
