"""Semantic composites: a function or childless module of light operations is one kernel, whatever it is built of."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from flashinfer_bench.decompose.classes import Class, key
from flashinfer_bench.decompose.grouping.naming import model_name, small_name, snake
from flashinfer_bench.decompose.grouping.parts import TracePart
from flashinfer_bench.decompose.ir import interface

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from flashinfer_bench.decompose.grouping.facts import Facts, Frame
    from flashinfer_bench.decompose.grouping.overrides import Overrides

LIGHT: frozenset[Class] = frozenset({"EW", "CAST", "RED", "MOVE"})
ACTIVATIONS = frozenset(
    {
        *(
            "relu",
            "relu6",
            "leaky_relu",
            "prelu",
            "elu",
            "selu",
            "celu",
            "gelu",
            "silu",
            "mish",
            "glu",
        ),
        *("sigmoid", "tanh", "hardswish", "hardsigmoid", "hardtanh", "hardshrink", "softshrink"),
        *(
            "softplus",
            "softsign",
            "tanhshrink",
            "threshold",
            "logsigmoid",
            "softmax",
            "log_softmax",
        ),
    }
)
"""Operations with a name of their own; a formula consists of others, such as sums and products."""


@dataclass(frozen=True)
class FrameTree:
    """Which frames lie in which, and which operations ran under each."""

    facts: Facts

    @cached_property
    def under(self) -> Mapping[Frame, tuple[int, ...]]:
        """All operations that ran in a frame or below it, ascending."""
        found: dict[Frame, list[int]] = {(): []}
        for op, frame in self.facts.frames.items():
            for length in range(len(frame) + 1):
                found.setdefault(frame[:length], []).append(op)
        return {frame: tuple(ops) for frame, ops in found.items()}

    @cached_property
    def children(self) -> Mapping[Frame, tuple[Frame, ...]]:
        """Frames directly inside a frame, in the order in which they were entered."""
        found: dict[Frame, list[Frame]] = {}
        for frame in self.under:
            if frame:
                found.setdefault(frame[:-1], []).append(frame)
        return {frame: tuple(below) for frame, below in found.items()}

    def work(self, frame: Frame) -> tuple[int, ...]:
        """Operations under a frame that are no data movement."""
        return tuple(op for op in self.under[frame] if op not in self.facts.data_movement)

    def has_working_modules(self, frame: Frame) -> bool:
        """Whether a module below this frame does work of its own."""
        return any(
            (below[-1].kind == "module" and bool(self.work(below)))
            or self.has_working_modules(below)
            for below in self.children.get(frame, ())
        )


def composites(tree: FrameTree, overrides: Overrides, taken: frozenset[int]) -> Iterator[TracePart]:
    """Find the outermost frames that are composites."""
    if overrides.is_on("composites"):
        yield from _search(tree, overrides, taken, ())


def _search(
    tree: FrameTree, overrides: Overrides, taken: frozenset[int], frame: Frame
) -> Iterator[TracePart]:
    work = tree.work(frame)
    if not work:
        return
    if is_composite(tree, overrides, frame) and taken.isdisjoint(tree.under[frame]):
        yield _part(tree, overrides, frame, work)
        return
    for below in tree.children.get(frame, ()):
        yield from _search(tree, overrides, taken, below)


def is_composite(tree: FrameTree, overrides: Overrides, frame: Frame) -> bool:
    """Whether a frame is one kernel by the rule."""
    work = tree.work(frame)
    counted = [op for op in work if op not in tree.facts.steady]
    if len(work) < 2 or len(counted) > overrides.limit("composites", "max_ops"):  # noqa: PLR2004  # one is no composite
        return False
    if overrides.treatment(frame) is not None or not all(_is_light(tree.facts, op) for op in work):
        return False
    if any(overrides.treatment(below) for below in tree.children.get(frame, ())):
        return False
    if tree.has_working_modules(frame) or (not frame and _all_named(tree.facts, work)):
        return False
    return 1 <= len(_outputs(tree, frame)) <= overrides.limit("composites", "max_outputs")


def _all_named(facts: Facts, work: tuple[int, ...]) -> bool:
    """Whether a model is activations one after another, each of which people count as an operation."""
    return all(key(facts.trace.op(op).fn) in ACTIVATIONS for op in work)


def _is_light(facts: Facts, op: int) -> bool:
    cls = facts.classes[op]
    if facts.trace.op(op).is_stochastic:
        return False
    return cls in LIGHT or (cls == "NORM" and "softm" in key(facts.trace.op(op).fn))


def _outputs(tree: FrameTree, frame: Frame) -> list[str]:
    made = interface(tree.facts.trace, tree.under[frame]).outputs
    return [out for out in made if tree.facts.trace.maker(out) not in tree.facts.prologue]


def _part(tree: FrameTree, overrides: Overrides, frame: Frame, work: tuple[int, ...]) -> TracePart:
    facts = tree.facts
    outputs = _outputs(tree, frame)
    if frame:
        name = small_name(frame, ("composite",))
        what = (
            f"{frame[-1].kind} {frame[-1].path if frame[-1].kind == 'function' else frame[-1].cls}"
        )
    else:
        name, what = (
            snake(model_name(facts.trace.model)),
            "the whole model, a module without children,",
        )
    return TracePart(
        level="kernel",
        name=overrides.name(frame) or name,
        reason=f"composite: {what} of {len(work)} light operations, {len(outputs)} output(s)",
        ops=work,
        frame=frame,
        home=frame[:-1],
        cls=composite_class(facts, work, outputs),
        tags=("composite",),
    )


def composite_class(facts: Facts, work: tuple[int, ...], outputs: list[str]) -> Class:
    """How several light operations count together: by what is reduced, and whether the shape comes back."""
    classes = {facts.classes[op] for op in work}
    if classes & {"RED", "NORM"}:
        values = facts.trace.values
        shapes = {values[value].shape for value in interface(facts.trace, work).inputs}
        return "NORM" if outputs and values[outputs[0]].shape in shapes else "RED"
    return "MOVE" if classes == {"MOVE"} else "EW"
