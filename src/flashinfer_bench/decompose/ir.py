"""The language all stages of a decomposition speak: values, operations, a trace of them, a tree over it.

Plain data without torch. A *trace* is what one forward call did, in static single assignment: every value is
made once, and an operation that wrote in place makes a new value. A *node* is a part of the model: it owns
operations of the trace and has children that own others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

SCHEMA_VERSION = "1"

Kind = Literal["input", "param", "buffer", "const", "inter"]
Level = Literal["kernel", "fusion", "layer", "model"]
LEVELS: tuple[Level, ...] = ("kernel", "fusion", "layer", "model")
"""From the smallest to the whole; a level's number is its place here."""


@dataclass(frozen=True)
class Value:
    """A tensor on its way through the model."""

    id: str
    shape: tuple[int, ...]
    dtype: str
    """Torch's name without the prefix: `float32`."""
    kind: Kind
    """`input`: given to forward; `param`, `buffer`: the model's; `const`: a tensor that was there before."""
    name: str
    """`x`, `blocks.0.attn.qkv.weight` (the first of a tied parameter's names), or the operation that made it."""
    aliases: tuple[str, ...] = ()
    """Further qualified names of a tied parameter or buffer."""
    strides: tuple[int, ...] | None = None
    """In elements; absent when the value is contiguous."""


@dataclass(frozen=True)
class Ref:
    """An argument that is a value of the trace."""

    id: str


@dataclass(frozen=True)
class Named:
    """An argument that is a torch object with a name: `torch.float32`, `torch.strided`, `cpu`."""

    kind: Literal["dtype", "device", "layout", "memory_format", "ellipsis", "generator"]
    name: str


@dataclass(frozen=True)
class Span:
    """A slice: `start:stop:step`, each an integer, none or a value."""

    start: Any
    stop: Any
    step: Any


@dataclass(frozen=True)
class Plain:
    """What is no tensor in a structure whose integers are indices: a number, a string, none."""

    value: Any


@dataclass(frozen=True)
class Along:
    """An integer that follows an axis: `factor * axis + offset`."""

    axis: int
    factor: int = 1
    offset: int = 0


@dataclass(frozen=True)
class Scope:
    """One frame on the way to an operation: a module's forward, or a function of the user's."""

    kind: Literal["module", "function"]
    path: str
    """Of a module its qualified name, empty for the root; of a function its name."""
    cls: str
    """Class of the module (`Linear`, `TransformerBlock`); of a function where it is defined."""
    call: int
    """How many times it had been entered before: a block used twice has calls 0 and 1."""
    is_library: bool = False
    """Whether it comes with torch and not with the model's file."""


@dataclass(frozen=True)
class Op:
    """One operation at the granularity in which people think: `torch.nn.functional.conv2d`."""

    id: int
    fn: str
    """The public name it is emitted by; methods are `torch.Tensor.view`; see `names`."""
    args: tuple[Any, ...]
    """Positional: values as `Ref`, torch's objects as `Named`, slices as `Span`, plain numbers, strings, none."""
    kwargs: Mapping[str, Any]
    outs: tuple[str, ...]
    """Ids of what it makes, in order; several for `split`, `topk`, `lstm`."""
    scope: tuple[Scope, ...]
    """From the root module inwards."""
    source: str = ""
    """`file.py:23`, the line in the model's file."""
    structure: Any = None
    """What it returns: none for one tensor, else nested tuples of indices into `outs` and of `Plain`."""
    autocast: tuple[str, str] | None = None
    """Device type and dtype of the autocast region around it."""
    is_stochastic: bool = False
    """Whether it draws random numbers; it is seeded by its ordinal when verified."""
    is_train: bool | None = None
    """For operations that ask the module: whether it was training."""

    @cached_property
    def ins(self) -> tuple[str, ...]:
        """Ids of the values it reads, each once, in order of appearance."""
        return tuple(dict.fromkeys(refs((self.args, self.kwargs))))


Reason = Literal["dead", "side_effect", "elided"]


@dataclass(frozen=True)
class Dropped:
    """An operation of the run that no output needs, and why it is in no leaf."""

    fn: str
    scope: tuple[Scope, ...]
    reason: Reason
    detail: str = ""


@dataclass(frozen=True)
class OpTrace:
    """What one forward call did."""

    model: str
    values: Mapping[str, Value]
    ops: tuple[Op, ...]
    """In the order in which they ran, dead ones left out; ids ascend and need not be dense."""
    inputs: tuple[str, ...]
    """Values given to forward, flattened in order."""
    input_structure: Any
    """The list of forward's arguments: nested lists, tuples and dicts of indices into `inputs`, and of `Plain`."""
    outputs: tuple[str, ...]
    output_structure: Any
    """What forward returns: nested lists, tuples and dicts of indices into `outputs`, and of `Plain`."""
    dropped: tuple[Dropped, ...] = ()
    specialisations: tuple[str, ...] = ()
    """Where the run asked for a number (`item`, `bool`): the trace holds for that answer only."""
    front_end: Literal["meta", "real", "export", "opaque"] = "meta"
    """Which step of the fallback chain made it."""
    notes: tuple[str, ...] = ()
    arguments: Mapping[Scope, Mapping[str, str]] = field(default_factory=dict)
    """By scope, what its code calls the values that it was given: `cos` and `sin` of a rotation."""

    def op(self, id: int) -> Op:  # noqa: A002  # what it is
        """Find an operation by its id."""
        return self._by_id[id]

    def maker(self, value: str) -> int | None:
        """Id of the operation that makes a value; none for inputs, parameters and constants."""
        return self._makers.get(value)

    def readers(self, value: str) -> tuple[int, ...]:
        """Ids of the operations that read a value, in order."""
        return self._readers.get(value, ())

    @cached_property
    def weights(self) -> frozenset[str]:
        """Parameters, and what is computed from them alone."""
        found = {name for name, value in self.values.items() if value.kind == "param"}
        for op in self.ops:
            if op.ins and all(value in found for value in op.ins):
                found.update(op.outs)
        return frozenset(found)

    @cached_property
    def _by_id(self) -> dict[int, Op]:
        return {op.id: op for op in self.ops}

    @cached_property
    def _makers(self) -> dict[str, int]:
        return {out: op.id for op in self.ops for out in op.outs}

    @cached_property
    def _readers(self) -> dict[str, tuple[int, ...]]:
        found: dict[str, list[int]] = {}
        for op in self.ops:
            for value in op.ins:
                found.setdefault(value, []).append(op.id)
        return {value: tuple(ids) for value, ids in found.items()}


@dataclass(frozen=True)
class Node:
    """A part of the model: a kernel, a fusion, a layer, or the whole."""

    id: str
    """Unique in its tree, stable from run to run: `layer:blocks.0/fusion:2`."""
    level: Level
    name: str
    """What people call it: `rms_norm`, `TransformerBlock`."""
    ops: tuple[int, ...]
    """Operations it owns itself, ascending: all of a leaf's; a parent's plumbing."""
    children: tuple[Node, ...] = ()
    """In an order in which they can run."""
    reason: str = ""
    """Which rule made it, with the facts that decided."""
    scope: str = ""
    """Qualified name of the module it comes from, or empty."""
    opaque: str | None = None
    """Why it is not taken apart further although it holds more than one operation's worth."""
    tags: tuple[str, ...] = field(default=())
    """`stochastic`, `idiom:gelu_tanh`, `composite`, …"""

    @property
    def is_leaf(self) -> bool:
        """Whether nothing is below it; leaves are kernels."""
        return not self.children

    def walk(self) -> Iterator[Node]:
        """This node and all below it, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()

    def all_ops(self) -> tuple[int, ...]:
        """Ids of the operations of this node and all below it, ascending."""
        return tuple(sorted(op for node in self.walk() for op in node.ops))


@dataclass(frozen=True)
class Interface:
    """What goes into a set of operations and what comes out."""

    inputs: tuple[str, ...]
    """Activations first, in order of first use, then parameters, buffers and constants in order of first use."""
    outputs: tuple[str, ...]
    """In order of making."""


def interface(trace: OpTrace, ops: Iterable[int]) -> Interface:
    """Find what a set of operations reads from outside and makes for outside."""
    chosen = sorted(set(ops))
    inside = {out for each in chosen for out in trace.op(each).outs}
    read = dict.fromkeys(
        value for each in chosen for value in trace.op(each).ins if value not in inside
    )
    own = set(chosen)
    kept = set(trace.outputs)
    made = (out for each in chosen for out in trace.op(each).outs)
    outputs = tuple(
        out
        for out in made
        if out in kept or any(reader not in own for reader in trace.readers(out))
    )
    return Interface(
        inputs=tuple(
            sorted(read, key=lambda value: trace.values[value].kind not in ("input", "inter"))
        ),
        outputs=outputs,
    )


def refs(argument: Any) -> Iterator[str]:
    """Ids of all values in a nested argument, with repetitions, in order."""
    match argument:
        case Ref():
            yield argument.id
        case None | int() | float() | str():
            return
        case tuple() | list():
            for each in argument:
                yield from refs(each)
        case Span():
            yield from refs((argument.start, argument.stop, argument.step))
        case Mapping():
            for each in argument.values():
                yield from refs(each)
        case _:
            return


def with_refs(argument: Any, ids: Mapping[str, str]) -> Any:
    """Rename the values in a nested argument; those not in the map keep their ids."""
    match argument:
        case Ref():
            return Ref(ids.get(argument.id, argument.id))
        case Span():
            return Span(
                *(with_refs(each, ids) for each in (argument.start, argument.stop, argument.step))
            )
        case Mapping():
            return {key: with_refs(each, ids) for key, each in argument.items()}
        case tuple():
            return tuple(with_refs(each, ids) for each in argument)
        case list():
            return [with_refs(each, ids) for each in argument]
        case _:
            return argument


def with_children(node: Node, children: Iterable[Node]) -> Node:
    """Give a node other children."""
    return replace(node, children=tuple(children))
