"""What a part of a model costs: arithmetic, traffic, and the traffic that fusing its parts would save.

A multiply-add counts as two, an elementwise function as one for each element whatever it is, softmax as five and
other norms as seven; moving, casting and drawing count as none. Masked scores of attention are counted like others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from flashinfer_bench.decompose.classes import Class, argument, classify, key
from flashinfer_bench.decompose.ir import Node, Op, OpTrace, Ref, Value, interface, refs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

SOFTMAX_FLOPS = 5
NORM_FLOPS = 7
_BITS: Mapping[str, int] = {"bool": 8, "uint8": 8, "int8": 8, "complex64": 64, "complex128": 128}


@dataclass(frozen=True)
class Cost:
    """Arithmetic and traffic of one run of something."""

    flops: int
    read_bytes: int
    """Each input once; of a table only the rows that are looked up."""
    written_bytes: int

    @property
    def bytes_moved(self) -> int:
        """Traffic in both directions."""
        return self.read_bytes + self.written_bytes

    @property
    def intensity(self) -> float:
        """Arithmetic for each byte moved."""
        return self.flops / self.bytes_moved if self.bytes_moved else 0.0


@dataclass(frozen=True)
class Edge:
    """A tensor between two kernels of a fusion, which one launch would keep on the chip."""

    parent: str
    value: str
    source: str
    """Id of the child that makes it."""
    targets: tuple[str, ...]
    """Ids of the children that read it, directly or through views."""
    saved_bytes: int


def node_cost(trace: OpTrace, node: Node) -> Cost:
    """Cost of a node as if it were one launch: its arithmetic, its inputs and outputs once."""
    return _cost(trace, node.all_ops())


def trace_cost(trace: OpTrace) -> Cost:
    """Cost of a whole run when each of its operations is a launch of its own."""
    each = [_cost(trace, (op.id,)) for op in trace.ops]
    return Cost(
        flops=sum(cost.flops for cost in each),
        read_bytes=sum(cost.read_bytes for cost in each),
        written_bytes=sum(cost.written_bytes for cost in each),
    )


def launches_cost(trace: OpTrace, node: Node) -> Cost:
    """Cost of a node when each of its kernels is a launch of its own."""
    each = [_cost(trace, leaf.ops) for leaf in node.walk() if leaf.is_leaf]
    return Cost(
        flops=sum(cost.flops for cost in each),
        read_bytes=sum(cost.read_bytes for cost in each),
        written_bytes=sum(cost.written_bytes for cost in each),
    )


def edges(trace: OpTrace, node: Node) -> tuple[Edge, ...]:
    """Tensors between the children of a node, with what keeping each on the chip saves."""
    inside = _InsideNode(trace, node)
    made = (value for child in node.children for value in interface(trace, child.all_ops()).outputs)
    found = (inside.edge(value) for value in made)
    return tuple(edge for edge in found if edge is not None)


@dataclass(frozen=True)
class _InsideNode:
    """Who makes and who reads what inside a node."""

    trace: OpTrace
    node: Node

    @cached_property
    def owners(self) -> Mapping[int, str]:
        """The child each operation belongs to."""
        return {op: child.id for child in self.node.children for op in child.all_ops()}

    @cached_property
    def leaving(self) -> frozenset[str]:
        """Values that are needed outside the node."""
        return frozenset(interface(self.trace, self.node.all_ops()).outputs)

    def edge(self, value: str) -> Edge | None:
        """Follow a value through the node's plumbing to the children that read it."""
        source = self.owners[_known(self.trace.maker(value))]
        reads: dict[tuple[str, str], None] = {}
        seen = [value]
        for each in seen:
            for reader in self.trace.readers(each):
                target = self.owners.get(reader)
                if target is None and reader in self.node.ops:
                    seen += (out for out in self.trace.op(reader).outs if out not in seen)
                elif target is not None and target != source:
                    reads[(target, each)] = None
        if not reads:
            return None
        values = self.trace.values
        written = 0 if self.leaving.intersection(seen) else value_bytes(values[value])
        return Edge(
            parent=self.node.id,
            value=value,
            source=source,
            targets=tuple(dict.fromkeys(target for target, _ in reads)),
            saved_bytes=written + sum(value_bytes(values[read]) for _, read in reads),
        )


def _known(maker: int | None) -> int:
    assert maker is not None, "an output of a child is made by one of its operations"
    return maker


# -- traffic -----------------------------------------------------------------------------------------------------


def value_bytes(value: Value) -> int:
    """Memory a tensor takes; repeats of an expanded one are not counted."""
    sizes = value.shape
    if value.strides is not None:
        sizes = tuple(
            size for size, stride in zip(value.shape, value.strides, strict=True) if stride
        )
    return math.prod(sizes) * dtype_bits(value.dtype) // 8


def dtype_bits(dtype: str) -> int:
    """Width of an element.

    >>> dtype_bits("bfloat16"), dtype_bits("float8_e4m3fn"), dtype_bits("bool"), dtype_bits("int64")
    (16, 8, 8, 64)
    """
    if dtype in _BITS:
        return _BITS[dtype]
    digits = "".join(letter if letter.isdigit() else " " for letter in dtype).split()
    return int(digits[0]) if digits else 32


def _cost(trace: OpTrace, ops: Iterable[int]) -> Cost:
    chosen = tuple(ops)
    ports = interface(trace, chosen)
    return Cost(
        flops=sum(flops(trace, trace.op(op)) for op in chosen),
        read_bytes=sum(_read(trace, value, frozenset(chosen)) for value in ports.inputs),
        written_bytes=sum(value_bytes(trace.values[value]) for value in ports.outputs),
    )


_LOOKUPS: Mapping[str, int] = {
    "embedding": 1,
    "embedding_bag": 1,
    "gather": 0,
    "index_select": 0,
    "index": 0,
    "getitem": 0,
    "take": 0,
    "take_along_dim": 0,
}
"""Operations that read a part of a tensor, and which argument that is."""


def _read(trace: OpTrace, value: str, ops: frozenset[int]) -> int:
    """Bytes read of an input: all of it, or what lookups take of it if nothing else reads it."""
    size = value_bytes(trace.values[value])
    readers = [trace.op(op) for op in trace.readers(value) if op in ops]
    looked_up = 0
    for op in readers:
        table = argument(op, _LOOKUPS.get(key(op.fn), -1), "none")
        if table != Ref(value) or key(op.fn) not in _LOOKUPS:
            return size
        looked_up += sum(value_bytes(trace.values[out]) for out in op.outs)
    return min(size, looked_up)


# -- arithmetic --------------------------------------------------------------------------------------------------


def flops(trace: OpTrace, op: Op) -> int:
    """Arithmetic of one operation."""
    counted = _COUNTED.get(key(op.fn))
    if counted is not None:
        return counted(_Shapes(trace, op))
    return _by_class(_Shapes(trace, op), classify(trace, op))


@dataclass(frozen=True)
class _Shapes:
    """Shapes of what an operation reads and makes."""

    trace: OpTrace
    op: Op

    def of(self, place: int, name: str = "input") -> tuple[int, ...]:
        """Shape of an argument; of a scalar when it is no tensor."""
        value = argument(self.op, place, name)
        return self.trace.values[value.id].shape if isinstance(value, Ref) else ()

    def ins(self) -> Iterator[tuple[int, ...]]:
        """Shapes of all inputs."""
        return (self.trace.values[value].shape for value in self.op.ins)

    @property
    def out(self) -> int:
        """Elements of the first output."""
        return math.prod(self.trace.values[self.op.outs[0]].shape) if self.op.outs else 0

    @property
    def widest(self) -> int:
        """Elements of the largest input."""
        return max(map(math.prod, self.ins()), default=0)


def _by_class(shapes: _Shapes, cls: Class) -> int:
    match cls:
        case "HEAVY" | "OPAQUE":
            sizes = sorted(map(math.prod, shapes.ins()), reverse=True)[:2]
            # For a product of two matrices this is exact: sqrt(mk · kn · mn) = mkn.
            return 2 * math.isqrt(math.prod(sizes) * shapes.out) if len(sizes) > 1 else shapes.out
        case "NORM":
            is_softmax = "softm" in key(shapes.op.fn)
            return (SOFTMAX_FLOPS if is_softmax else NORM_FLOPS) * shapes.widest
        case "POOL":
            return shapes.out * _window(shapes)
        case "RED":
            return shapes.widest
        case "EW":
            return shapes.out
        case "VIEW" | "GEN" | "MOVE" | "CAST" | "RNG":
            return 0


def _window(shapes: _Shapes) -> int:
    """Elements one output of a pooling is made of."""
    size = argument(shapes.op, 1, "kernel_size")
    dims = next((int(letter) for letter in key(shapes.op.fn) if letter.isdigit()), 1)
    if "adaptive" in key(shapes.op.fn) or size is None:
        return max(1, shapes.widest // max(1, shapes.out))
    return math.prod(size) if isinstance(size, (tuple, list)) else int(size) ** dims


def _product(place: int, name: str = "input") -> Callable[[_Shapes], int]:
    """A matrix product whose summed size is the last of an argument."""

    def count(shapes: _Shapes) -> int:
        rows = shapes.of(place, name)
        return 2 * shapes.out * (rows[-1] if rows else 1)

    return count


def _linear(shapes: _Shapes) -> int:
    has_bias = isinstance(argument(shapes.op, 2, "bias"), Ref)
    return _product(0)(shapes) + (shapes.out if has_bias else 0)


def _convolution(shapes: _Shapes) -> int:
    weight = shapes.of(1, "weight")
    has_bias = isinstance(argument(shapes.op, 2, "bias"), Ref)
    return 2 * shapes.out * math.prod(weight[1:]) + (shapes.out if has_bias else 0)


def _transposed(shapes: _Shapes) -> int:
    weight = shapes.of(1, "weight")
    has_bias = isinstance(argument(shapes.op, 2, "bias"), Ref)
    spread = 2 * math.prod(shapes.of(0)) * math.prod(weight[1:])
    return spread + (shapes.out if has_bias else 0)


def _attention(shapes: _Shapes) -> int:
    query, keys = shapes.of(0, "query"), shapes.of(1, "key")
    scores = math.prod(query[:-1]) * keys[-2]
    return scores * (2 * query[-1] + SOFTMAX_FLOPS) + 2 * shapes.out * keys[-2]


def _recurrent(shapes: _Shapes) -> int:
    """Every weight matrix once for each step and sequence."""
    first, *_ = shapes.ins()
    data = shapes.trace.values[shapes.op.ins[0]].shape or first
    steps = math.prod(data[:-1])
    weights = refs(shapes.op.args[1:])
    values = (shapes.trace.values[value] for value in dict.fromkeys(weights))
    matrices = sum(
        math.prod(each.shape)
        for each in values
        if each.kind == "param" and len(each.shape) == 2  # noqa: PLR2004
    )
    return 2 * steps * matrices


def _einsum(shapes: _Shapes) -> int:
    """Two operands at a time, from left to right: all index sizes of the pair multiplied, twice.

    An index that neither the result nor a later operand has is summed with its pair.
    """
    equation, *operands = shapes.op.args
    if len(operands) == 1 and isinstance(operands[0], (tuple, list)):
        operands = list(operands[0])
    if not isinstance(equation, str) or not all(isinstance(each, Ref) for each in operands):
        return _by_class(shapes, "HEAVY")
    left, _, right = equation.replace(" ", "").partition("->")
    sizes = [
        _label_sizes(labels, shapes.trace.values[operand.id].shape)
        for labels, operand in zip(left.split(","), operands, strict=False)
    ]
    if len(sizes) < 2:  # noqa: PLR2004  # a sum over one operand
        return math.prod(value for each in sizes for value in each.values())
    kept = _result_labels(left, right, sizes, has_arrow="->" in equation)
    flops, held = 0, sizes[0]
    for at, other in enumerate(sizes[1:], start=1):
        pair = held | other
        flops += 2 * math.prod(pair.values())
        later = kept.union(*sizes[at + 1 :])
        held = {label: size for label, size in pair.items() if label in later}
    return flops


def _result_labels(
    left: str, right: str, sizes: list[dict[str, int]], *, has_arrow: bool
) -> set[str]:
    """Find the indices of the result; without an arrow they are those that occur once."""
    dots = {label for each in sizes for label in each if label.startswith("...")}
    if has_arrow:
        return set(right) | (dots if "..." in right else set())
    letters = [label for label in left if label.isalpha()]
    return dots | {label for label in letters if letters.count(label) == 1}


def _label_sizes(labels: str, shape: tuple[int, ...]) -> dict[str, int]:
    """Sizes of an operand's indices; those under an ellipsis are named by their place from the right."""
    head, dots, tail = labels.partition("...")
    middle = shape[len(head) : len(shape) - len(tail)] if dots else ()
    sizes = dict(zip(head, shape, strict=False))
    sizes |= {f"...{len(middle) - place}": size for place, size in enumerate(middle)}
    return sizes | dict(zip(tail, shape[len(shape) - len(tail) :], strict=False))


def _bilinear(shapes: _Shapes) -> int:
    return 2 * math.prod(shapes.of(0, "input1")[:-1]) * math.prod(shapes.of(2, "weight"))


def _distances(shapes: _Shapes) -> int:
    return 3 * shapes.out * shapes.of(0, "x1")[-1]


def _transform(shapes: _Shapes) -> int:
    """A fast Fourier transform of the last dimension (5 n log n, as the field counts)."""
    size = max(shapes.widest, shapes.out)
    last = max((shape[-1] for shape in shapes.ins() if shape), default=1)
    return int(5 * size * math.log2(max(2, last)))


_COUNTED: Mapping[str, Callable[[_Shapes], int]] = {
    "linear": _linear,
    **dict.fromkeys(("matmul", "mm", "bmm", "mv", "dot", "vdot", "inner"), _product(0)),
    **dict.fromkeys(("addmm", "baddbmm", "addbmm", "addmv"), _product(1, "mat1")),
    "einsum": _einsum,
    "bilinear": _bilinear,
    "cdist": _distances,
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), _convolution),
    **dict.fromkeys(("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), _transposed),
    "scaled_dot_product_attention": _attention,
    **dict.fromkeys(
        (
            "lstm", "gru", "rnn_tanh", "rnn_relu", "lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell",
        ),
        _recurrent,
    ),
    **dict.fromkeys(("fft", "ifft", "rfft", "irfft", "fft2", "ifft2", "rfft2", "irfft2"), _transform),
    **dict.fromkeys(("fftn", "ifftn", "rfftn", "irfftn", "stft", "istft"), _transform),
}  # fmt: skip
