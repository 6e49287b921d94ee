"""Grouping: a trace becomes a tree of layers, fusions and kernels, by rules in a fixed order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashinfer_bench.decompose.grouping.check import check_tree
from flashinfer_bench.decompose.grouping.composites import FrameTree
from flashinfer_bench.decompose.grouping.data_movement import completed, steps
from flashinfer_bench.decompose.grouping.facts import Facts
from flashinfer_bench.decompose.grouping.fusions import ResultUsers
from flashinfer_bench.decompose.grouping.kernels import kernels
from flashinfer_bench.decompose.grouping.layers import Layers, whole
from flashinfer_bench.decompose.grouping.naming import identified
from flashinfer_bench.decompose.grouping.overrides import (
    Overrides,
    load_overrides,
    parse_overrides,
)

if TYPE_CHECKING:
    from flashinfer_bench.decompose.ir import Node, OpTrace

__all__ = [
    "Overrides",
    "check_tree",
    "decompose_trace",
    "load_overrides",
    "parse_overrides",
    "steps",
]


def decompose_trace(trace: OpTrace, overrides: Overrides | None = None) -> Node:
    """Take a model apart: every operation of its trace ends in exactly one node."""
    decisions = overrides or Overrides()
    facts = Facts(trace)
    tree = FrameTree(facts)
    decisions.check_used(facts.frames.values())
    leaves = kernels(tree, decisions)
    layers = Layers(tree, ResultUsers(facts, leaves), decisions)
    return identified(completed(facts, whole(layers)))
