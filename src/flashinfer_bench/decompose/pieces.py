"""The different pieces of a model: equal parts of its tree are one piece with several instances."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from flashinfer_bench.decompose.forms import Form, form
from flashinfer_bench.decompose.identity import (
    base_name,
    identity,
    is_weight,
    snake,
    unique_names,
    with_dtype,
)
from flashinfer_bench.decompose.ir import LEVELS, Interface, Node, OpTrace, interface
from flashinfer_bench.decompose.published import Published, published
from flashinfer_bench.decompose.variables import input_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from flashinfer_bench.decompose.axes import Probed
    from flashinfer_bench.decompose.own_values import OwnValues


@dataclass(frozen=True)
class PieceInstance:
    """One occurrence of a piece."""

    node: Node
    form: Form


@dataclass
class Piece:
    """Work that a model does once or several times."""

    identity: str
    instances: list[PieceInstance] = field(default_factory=list)
    parameters: list[str] = field(default_factory=list)
    """What its inputs are called, in order."""
    children: list[Piece] = field(default_factory=list)
    """What each child of its first node is an instance of."""
    id: str = ""
    published: Published | None = None
    """What it is among published definitions."""
    definition: str = ""
    """What its definition is called: as it is, unless published tensors come in another order."""

    @property
    def node(self) -> Node:
        """The first node it was found as."""
        return self.instances[0].node

    @property
    def form(self) -> Form:
        """Its form, as first found."""
        return self.instances[0].form

    @property
    def level(self) -> int:
        """From 0, a kernel, to 3, the model."""
        return LEVELS.index(self.node.level)

    @property
    def file(self) -> str:
        """Where it is written, below the decomposition's folder."""
        return f"level_{self.level}_{self.node.level}/{self.id}.py"

    @property
    def class_name(self) -> str:
        """Name of its class in the files of its parents."""
        return "".join(part.capitalize() for part in self.id.split("_"))

    def below(self) -> Iterator[Piece]:
        """Yield the different pieces it is made of, smaller ones first, each once."""
        seen: set[str] = set()
        for child in self.children:
            for each in (*child.below(), child):
                if each.identity not in seen:
                    seen.add(each.identity)
                    yield each


@dataclass(frozen=True)
class Pieces:
    """All pieces of a model."""

    probed: Probed
    root: Piece
    all: tuple[Piece, ...]
    """Parents before their children, in the order of their first instances."""
    own: OwnValues | None = None
    """The model's own numbers, once its pieces are written."""

    @property
    def trace(self) -> OpTrace:
        """What the model did."""
        return self.probed.trace


def find_pieces(probed: Probed, tree: Node) -> Pieces:
    """Find the different pieces of a tree, and name them."""
    found: dict[str, Piece] = {}
    root = _piece(probed, tree, found, faces=_whole(probed.trace, tree))
    ordered = list(_in_order(root))
    wanted = {each.identity: base_name(probed.trace, each.node, each.form) for each in ordered}
    if not root.node.is_leaf:
        wanted[root.identity] = snake(probed.trace.model)
    ids, definitions = unique_names(wanted), unique_names(_called(probed.trace, ordered, wanted))
    for hashed, piece in found.items():
        piece.definition = definitions[hashed]
        piece.id = piece.definition if _is_in_order(piece) else ids[hashed]
    return Pieces(probed, root, tuple(ordered))


def _called(trace: OpTrace, pieces: Sequence[Piece], wanted: Mapping[str, str]) -> dict[str, str]:
    """Call pieces as published definitions are called, with the dtype where it is not theirs."""
    names = dict(wanted)
    for piece in pieces:
        known = piece.published
        if known is not None:
            names[piece.identity] = with_dtype(trace, known.name, piece.form, plain=known.dtype)
    return names


def _is_in_order(piece: Piece) -> bool:
    """Whether a piece takes and gives its tensors as its definition does."""
    if piece.published is None:
        return True
    ordered = (tuple(piece.published.inputs.values()), tuple(piece.published.outputs.values()))
    return ordered == (piece.form.inputs, piece.form.outputs)


def _piece(
    probed: Probed, node: Node, found: dict[str, Piece], *, faces: Interface | None = None
) -> Piece:
    children = [_piece(probed, child, found) for child in node.children]
    formed = form(probed, node.all_ops(), faces=faces)
    parts = [
        (child.identity, part.all_ops())
        for child, part in zip(children, node.children, strict=True)
    ]
    hashed = identity(probed.trace, formed, parts)
    piece = found.get(hashed)
    if piece is None:
        scope = None if node.is_leaf else node.scope
        parameters = input_names(probed.trace, formed.inputs, formed.ops, scope)
        known = published(probed.trace, node, formed)
        if known is not None:
            names = {value: name for name, value in known.inputs.items()}
            parameters = [names[value] for value in formed.inputs]
        piece = found[hashed] = Piece(
            hashed, parameters=parameters, children=children, published=known
        )
    piece.instances.append(PieceInstance(node, formed))
    return piece


def _whole(trace: OpTrace, tree: Node) -> Interface:
    """Give the model's own inputs and outputs, used or not, and the weights it uses."""
    needed = interface(trace, tree.all_ops()).inputs
    unmade = [value for value in trace.outputs if trace.maker(value) is None]
    weights = [value for value in (*needed, *unmade) if value not in trace.inputs]
    return Interface(tuple(dict.fromkeys((*trace.inputs, *weights))), trace.outputs)


def _in_order(root: Piece) -> Iterator[Piece]:
    seen: set[str] = set()
    waiting = [root]
    while waiting:
        piece = waiting.pop(0)
        if piece.identity not in seen:
            seen.add(piece.identity)
            yield piece
            waiting += piece.children


def bindings(trace: OpTrace, piece: Piece, instance: PieceInstance) -> dict[str, str]:
    """Say which weight of the model each weight input is in an instance."""
    return {
        name: trace.values[value].name
        for name, value in zip(piece.parameters, instance.form.inputs, strict=True)
        if is_weight(trace, value)
    }


@dataclass(frozen=True)
class Unit:
    """A step of a parent: a call of a child, or one operation of its plumbing."""

    child: int | None
    first: int
    """Its first operation; of plumbing the only one."""
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def units(trace: OpTrace, node: Node) -> list[Unit]:
    """Order a parent's children and its plumbing so that everything is made before it is read."""
    steps = [Unit(None, op, trace.op(op).ins, trace.op(op).outs) for op in node.ops]
    for at, child in enumerate(node.children):
        ops = child.all_ops()
        faces = interface(trace, ops)
        steps.append(Unit(at, ops[0], faces.inputs, faces.outputs))
    makers = {value: at for at, step in enumerate(steps) for value in step.outputs}
    needs = {
        at: {makers[value] for value in step.inputs if value in makers}
        for at, step in enumerate(steps)
    }
    return [steps[at] for at in _released(needs, [step.first for step in steps])]


def _released(needs: Mapping[int, set[int]], first: Sequence[int]) -> list[int]:
    """Sort topologically; among what is ready the one that began first in the run."""
    users: dict[int, list[int]] = {}
    for at, needed in needs.items():
        for each in needed:
            users.setdefault(each, []).append(at)
    missing = {at: len(needed) for at, needed in needs.items()}
    ready = [(first[at], at) for at, count in missing.items() if count == 0]
    heapq.heapify(ready)
    order = []
    while ready:
        _, at = heapq.heappop(ready)
        order.append(at)
        for user in users.get(at, ()):
            missing[user] -= 1
            if missing[user] == 0:
                heapq.heappush(ready, (first[user], user))
    assert len(order) == len(needs), "a tree's children must not wait for each other"
    return order
