"""The root: which level a whole model is."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from flashinfer_bench.decompose.grouping.naming import model_name
from flashinfer_bench.decompose.grouping.parts import TracePart, count, flattened, is_decided

if TYPE_CHECKING:
    from flashinfer_bench.decompose.grouping.layers import Layers
    from flashinfer_bench.decompose.ir import Level


def whole(layers: Layers) -> TracePart:
    """Make the root of what the model's forward holds."""
    units = layers.inside(())
    kernels = count(units)
    name = model_name(layers.tree.facts.trace.model)
    if kernels == 0:
        return TracePart(
            level="kernel", name=name, reason="root: nothing but plumbing", frame=(), cls="MOVE"
        )
    if kernels == 1:
        (leaf,) = flattened(units)
        return replace(leaf, reason=f"root: 1 kernel; {leaf.reason}", frame=())
    heavy = sum(leaf.cls == "HEAVY" for leaf in flattened(units))
    facts = f"root: {kernels} kernels, {heavy} of them heavy"
    if not is_decided(units) and _is_fusion(layers, kernels, heavy):
        return TracePart(
            level="fusion", name=name, reason=facts, children=flattened(units), frame=()
        )
    return _large(layers, units, name, facts)


def _is_fusion(layers: Layers, kernels: int, heavy: int) -> bool:
    limit = layers.overrides.limit
    if not layers.overrides.is_on("root_fusion"):
        return False
    if kernels <= limit("root_fusion", "max_kernels"):
        return True
    return heavy <= 1 and kernels <= limit("root_fusion", "max_kernels_one_heavy")


def _large(layers: Layers, units: tuple[TracePart, ...], name: str, facts: str) -> TracePart:
    children = layers.arranged(units, ())
    while len(children) == 1 and not children[0].is_leaf:
        inner = children[0]
        if inner.level == "fusion":
            return replace(inner, name=name, reason=f"{facts}; {inner.reason}", frame=())
        children = layers.arranged(inner.children, inner.frame or ())
        if children == inner.children:
            break
    inside = sum(child.level == "layer" for child in children)
    is_model = inside > 0 or count(units) > layers.overrides.limit("root_layer", "max_kernels")
    level: Level = "model" if is_model else "layer"
    return TracePart(
        level=level,
        name=name,
        reason=f"{facts}, {inside} layers",
        children=children,
        frame=(),
    )
