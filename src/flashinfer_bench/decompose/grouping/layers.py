"""Layers: module scopes from the inside out, long scopes split; and which level the whole model is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from flashinfer_bench.decompose.grouping.fusions import ResultUsers, chained
from flashinfer_bench.decompose.grouping.naming import joined, large_name, model_name, small_name
from flashinfer_bench.decompose.grouping.parts import (
    TracePart,
    count,
    flattened,
    in_order,
    is_decided,
    renamed,
)
from flashinfer_bench.decompose.grouping.repeats import labels, longest_repeat

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from flashinfer_bench.decompose.grouping.composites import FrameTree
    from flashinfer_bench.decompose.grouping.facts import Frame
    from flashinfer_bench.decompose.grouping.overrides import Overrides
    from flashinfer_bench.decompose.ir import Level


@dataclass(frozen=True)
class Layers:
    """Groups kernels by the scopes in which they ran."""

    tree: FrameTree
    flow: ResultUsers
    overrides: Overrides

    def inside(self, frame: Frame) -> tuple[TracePart, ...]:
        """The parts directly inside a frame: its kernels, and what the frames below became."""
        units = list(self._kernels_of.get(frame, ()))
        for below in self.tree.children.get(frame, ()):
            units += self.of(below)
        return in_order(units)

    @cached_property
    def _kernels_of(self) -> dict[Frame, list[TracePart]]:
        found: dict[Frame, list[TracePart]] = {}
        for part in self.flow.parts:
            found.setdefault(part.home, []).append(part)
        return found

    def of(self, frame: Frame) -> tuple[TracePart, ...]:
        """What a frame becomes for the frame around it: one node, or its parts."""
        units = self.inside(frame)
        kernels = count(units)
        treatment = self.overrides.treatment(frame)
        if kernels < 2:  # noqa: PLR2004  # one kernel needs no node around it
            name = self.overrides.name(frame)
            return tuple(replace(unit, name=name) for unit in units) if name else units
        if treatment == "split":
            return units
        if treatment is None and frame[-1].kind == "function":
            return units
        limit = self.overrides.limit("module_fusions", "max_kernels")
        is_small = kernels <= limit and not is_decided(units)
        if treatment == "fusion" or (treatment is None and is_small):
            is_on = treatment == "fusion" or self.overrides.is_on("module_fusions")
            return (self._fusion(frame, units),) if is_on else units
        return (self._layer(frame, units, is_split=treatment != "whole"),)

    def _standing_for(self, frame: Frame, part: TracePart) -> TracePart:
        """Give a scope's only node the scope's name."""
        kernels = [leaf.name for leaf in part.leaves()]
        name = small_name(frame, kernels) if part.level == "fusion" else self._large(frame)
        return renamed(
            part, name=self.overrides.name(frame) or name, frame=frame, reason=part.reason
        )

    def _fusion(self, frame: Frame, units: tuple[TracePart, ...]) -> TracePart:
        leaves = flattened(units)
        name = small_name(frame, [leaf.name for leaf in leaves])
        return TracePart(
            level="fusion",
            name=self.overrides.name(frame) or name,
            reason=f"module {frame[-1].path or frame[-1].cls} of {len(leaves)} kernels",
            children=leaves,
            frame=frame,
            home=frame[:-1],
            is_decided=self.overrides.treatment(frame) is not None,
        )

    def _layer(self, frame: Frame, units: tuple[TracePart, ...], *, is_split: bool) -> TracePart:
        arranged = self.arranged(units, frame) if is_split else self._chained(units)
        if len(arranged) == 1:
            return self._standing_for(frame, arranged[0])
        return TracePart(
            level="layer",
            name=self.overrides.name(frame) or self._large(frame),
            reason=f"module {frame[-1].path or frame[-1].cls} of {count(units)} kernels",
            children=arranged,
            frame=frame,
            home=frame[:-1],
            is_decided=self.overrides.treatment(frame) is not None,
        )

    def _large(self, frame: Frame) -> str:
        return large_name(frame, self.tree.facts.trace.model)

    # -- inside one scope ----------------------------------------------------------------------------------------

    def arranged(self, units: tuple[TracePart, ...], frame: Frame) -> tuple[TracePart, ...]:
        """Make chains of a scope's own kernels, then split the scope if they are many."""
        direct = sum(unit.is_leaf for unit in units)
        found = self._chained(units)
        if self.overrides.is_on("pool_split") and direct > self.overrides.limit(
            "pool_split", "max_kernels"
        ):
            stages = self._at_pools(found, frame)
            if stages:
                return stages
        return self._repeats_if_long(found, frame, direct)

    def _chained(self, units: tuple[TracePart, ...]) -> tuple[TracePart, ...]:
        return in_order(chained(self.flow, units, self.overrides))

    def _at_pools(self, units: Sequence[TracePart], frame: Frame) -> tuple[TracePart, ...] | None:
        """Cut after each pooling; what is big enough between two cuts becomes a layer."""
        segments: list[list[TracePart]] = [[]]
        for unit in units:
            segments[-1].append(unit)
            if any(leaf.cls == "POOL" for leaf in unit.leaves()) and not unit.frame:
                segments.append([])
        full = [segment for segment in segments if segment]
        if len(full) < 2:  # noqa: PLR2004  # one segment is no split
            return None
        found: list[TracePart] = []
        for segment in full:
            direct = sum(count([unit]) for unit in segment if not unit.frame)
            inner = self._repeats_if_long(segment, frame, direct)
            found += self._stage(
                inner, frame, f"between pools: {count(segment)} kernels", len(full)
            )
        return tuple(found)

    def _stage(
        self, units: tuple[TracePart, ...], frame: Frame, reason: str, stages: int
    ) -> tuple[TracePart, ...]:
        is_big = count(units) > self.overrides.limit("module_fusions", "max_kernels")
        if not is_big or len(units) == 1:
            return units
        name = f"{self._large(frame)}Stage"
        return (
            TracePart(
                level="layer",
                name=name,
                reason=f"{reason}, one of {stages}",
                children=units,
                home=frame,
            ),
        )

    def _repeats_if_long(
        self, units: Sequence[TracePart], frame: Frame, direct: int
    ) -> tuple[TracePart, ...]:
        is_long = direct > self.overrides.limit("repeat_split", "max_kernels")
        if not is_long or not self.overrides.is_on("repeat_split"):
            return tuple(units)
        return tuple(self._repeats(list(units), frame))

    def _repeats(self, units: list[TracePart], frame: Frame) -> list[TracePart]:
        """Make each round of the longest repeated sequence a node, and so on before and after it."""
        found = longest_repeat(
            labels(self.tree.facts.trace, units), [count([unit]) for unit in units]
        )
        if found is None:
            return units
        start, period, times = found
        rounds = [
            units[start + turn * period : start + (turn + 1) * period] for turn in range(times)
        ]
        return [
            *self._repeats(units[:start], frame),
            *(self._round(each, frame, times) for each in rounds),
            *self._repeats(units[start + period * times :], frame),
        ]

    def _round(self, units: Iterable[TracePart], frame: Frame, times: int) -> TracePart:
        units = tuple(units)
        kernels = count(units)
        reason = f"one of {times} equal sequences of {kernels} kernels"
        if kernels <= self.overrides.limit("module_fusions", "max_kernels"):
            leaves = flattened(units)
            name = joined(leaf.name for leaf in leaves)
            return TracePart(level="fusion", name=name, reason=reason, children=leaves, home=frame)
        name = f"{self._large(frame)}Step"
        return TracePart(level="layer", name=name, reason=reason, children=units, home=frame)


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
