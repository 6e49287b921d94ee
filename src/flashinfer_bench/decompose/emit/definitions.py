"""A piece as a definition: named axes, tensors, and a free function `run` as its reference."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashinfer_bench.data import Definition
from flashinfer_bench.data.shapes import AxisConst, AxisExpr, AxisSpec, AxisVar, DType, TensorSpec
from flashinfer_bench.decompose.catalogue import identity_tag
from flashinfer_bench.decompose.classes import TABLE, key
from flashinfer_bench.decompose.emit.code import Body, definition, summary
from flashinfer_bench.decompose.identity import identity_by_rows, is_weight, snake
from flashinfer_bench.decompose.ir import Along
from flashinfer_bench.decompose.published import roundings
from flashinfer_bench.decompose.variables import Names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.decompose.pieces import Piece, Pieces
    from flashinfer_bench.decompose.published import Published


_OP_TYPES = {"rms_norm": "rmsnorm", "rotary_embedding": "rope", "rope": "rope",
             "apply_rotary_pos_emb": "rope", "apply_rotary_emb": "rope"}  # fmt: skip
"""What a piece is called here, and the op type others use."""
_JUDGED_OTHERWISE = frozenset({"sampling", "moe", "dsa_paged"})
"""Op types whose judges expect more than any piece of that name gives."""
_DTYPES = frozenset(dtype.value for dtype in DType)


def unfit(pieces: Pieces, piece: Piece) -> str | None:
    """Say why a piece cannot be a definition; none if it can."""
    values = [pieces.trace.values[value] for value in (*piece.form.inputs, *piece.form.outputs)]
    foreign = sorted({value.dtype for value in values} - _DTYPES)
    if pieces.trace.front_end == "opaque":
        return "could not be taken apart"
    if any(op.is_stochastic for op in piece.form.ops):
        return "draws random numbers: there is no one right answer"
    if foreign:
        return f"has tensors of {', '.join(foreign)}, which definitions do not know"
    if not piece.form.outputs or not piece.form.inputs:
        return "has no inputs" if piece.form.outputs else "has no outputs"
    return None


def op_type_of(piece: Piece) -> str:
    """Name what a piece does as datasets do."""
    name = snake(piece.node.name)
    return _OP_TYPES.get(name, name)


def definition_of(pieces: Pieces, piece: Piece, tags: Sequence[str]) -> Definition:
    """Describe a piece as a definition."""
    if piece.published is not None:
        return _published(pieces, piece, piece.published, tags)
    names = Names(piece.parameters)
    outputs = [
        names.take("output" if len(piece.form.outputs) == 1 else f"output_{at}")
        for at in range(len(piece.form.outputs))
    ]
    op_type = op_type_of(piece)
    return Definition(
        name=piece.definition,
        op_type=op_type,
        description=summary(piece),
        tags=[
            *tags,
            f"level:{piece.node.level}",
            identity_tag(piece.identity),
        ],
        axes=_axes(piece),
        inputs={
            name: _spec(pieces, piece, value, _input_words(pieces, piece, value))
            for name, value in zip(piece.parameters, piece.form.inputs, strict=True)
        },
        outputs={
            name: _spec(pieces, piece, value, "result")
            for name, value in zip(outputs, piece.form.outputs, strict=True)
        },
        reference=_reference(piece, piece.parameters, piece.form.outputs),
        judge=_judge(piece, op_type),
    )


def _published(pieces: Pieces, piece: Piece, known: Published, tags: Sequence[str]) -> Definition:
    """Describe a piece as the published definition of its kind: rows, names and order are that one's."""
    rows = AxisVar(type="var", description="rows: all dimensions but the last, as one")
    widths = {
        name: AxisConst(type="const", value=size, description="length of a row")
        for name, size in known.widths.items()
    }

    def spec(name: str, value: str, words: str) -> TensorSpec:
        return TensorSpec(
            shape=list(known.shapes[name]),
            dtype=DType(pieces.trace.values[value].dtype),
            role="static" if is_weight(pieces.trace, value) else "dynamic",
            description=words,
        )

    by_rows = identity_by_rows(
        pieces.trace, piece.form, known.inputs.values(), known.outputs.values()
    )
    return Definition(
        name=piece.definition,
        op_type=known.op_type,
        description=_with_roundings(pieces, piece),
        tags=[*tags, f"level:{piece.node.level}", identity_tag(by_rows)],
        axes={known.rows: rows, **widths},
        inputs={
            name: spec(name, value, _input_words(pieces, piece, value))
            for name, value in known.inputs.items()
        },
        outputs={name: spec(name, value, "result") for name, value in known.outputs.items()},
        reference=_reference(piece, list(known.inputs), tuple(known.outputs.values())),
    )


def _with_roundings(pieces: Pieces, piece: Piece) -> str:
    """Say what a piece is, and where the model rounds; a published kernel may round once."""
    at = roundings(pieces.trace, piece.form)
    if len(at) < 2:  # noqa: PLR2004
        return summary(piece)
    dtype = pieces.trace.values[piece.form.outputs[0]].dtype
    return f"{summary(piece)} It rounds to {dtype} after {', '.join(at)}."


def _judge(piece: Piece, op_type: str) -> str | None:
    """Ties among the k largest may be broken either way; other indices must be equal."""
    if len(piece.form.ops) == 1 and key(piece.form.ops[0].fn) == "topk":
        is_whole = len(piece.form.outputs) == len(piece.form.ops[0].outs)
        return "top_k" if is_whole else None
    return "elementwise" if op_type in _JUDGED_OTHERWISE else None


def _axes(piece: Piece) -> dict[str, AxisSpec]:
    axes: dict[str, AxisSpec] = {
        axis.name: AxisVar(type="var", description=_where(piece, *axis.place))
        for axis in piece.form.axes
    }
    values = (*piece.form.inputs, *piece.form.outputs)
    for size in (size for value in values for size in piece.form.shapes[value]):
        if isinstance(size, Along) and size.offset:
            of = piece.form.axes[size.axis].name
            axes[_length_name(piece, size)] = AxisExpr(
                expression=f"{of} + {size.offset}", description=f"{of} and {size.offset} more"
            )
    sizes = sorted({s for v in values for s in piece.form.shapes[v] if isinstance(s, int)})
    for size in sizes:
        axes[f"d{size}"] = AxisConst(type="const", value=size, description=f"the length {size}")
    return axes


def _length_name(piece: Piece, length: Along) -> str:
    """Name a length that follows an axis."""
    name = piece.form.axes[length.axis].name
    return f"{name}_and_{length.offset}" if length.offset else name


def _where(piece: Piece, position: int, dimension: int) -> str:
    return f"length of dimension {dimension} of {piece.parameters[position]}"


def _spec(pieces: Pieces, piece: Piece, value: str, words: str) -> TensorSpec:
    shape = [
        _length_name(piece, size) if isinstance(size, Along) else f"d{size}"
        for size in piece.form.shapes[value]
    ]
    is_static = value in piece.form.inputs and is_weight(pieces.trace, value)
    return TensorSpec(
        shape=shape,
        dtype=DType(pieces.trace.values[value].dtype),
        role="static" if is_static else "dynamic",
        description=words,
    )


def _input_words(pieces: Pieces, piece: Piece, value: str) -> str:
    found = pieces.trace.values[value]
    match found.kind:
        case "inter":
            maker = pieces.trace.maker(value)
            assert maker is not None
            return f"activation, made by {key(pieces.trace.op(maker).fn)}"
        case "input":
            return f"the model's input {found.name}"
        case "param":
            more = len(piece.instances) - 1
            others = f", and {more} like it" if more else ""
            return f"the model's weight {found.name}{others}"
        case _:
            return f"the model's constant {found.name}"


_COPYING = frozenset({"clone", "tensor", "as_tensor"})


def _reference(piece: Piece, parameters: Sequence[str], outputs: Sequence[str]) -> str:
    """Write the module that defines `run`, with its parameters and outputs in an order."""
    body = Body(piece.form, piece.parameters)
    body.add_all()
    _part_outputs(body, piece)
    lines = [f'"""{summary(piece)}"""', *body.finish(outputs)]
    text = "\n".join(definition("def run", parameters, lines))
    imports = ["import torch"] + ["import torch.nn.functional as F"] * ("F." in text)
    return "\n".join([*imports, "", "", text, ""])


def _part_outputs(body: Body, piece: Piece) -> None:
    """Copy outputs that share memory with an input or another output."""
    roots = _roots(piece)
    taken = {roots.get(value, value) for value in piece.form.inputs}
    for value in piece.form.outputs:
        root = roots.get(value, value)
        if root in taken or value in piece.form.inputs:
            name = body.names.take(f"{body.values[value]}_copy")
            body.lines.append(f"{name} = {body.values[value]}.clone()")
            body.values[value] = name
        taken.add(root)


def _roots(piece: Piece) -> dict[str, str]:
    """Find the value whose memory each value may share."""
    roots: dict[str, str] = {}
    for op in piece.form.ops:
        name = key(op.fn)
        is_view = TABLE.get(name) == "VIEW" or name in ("to", "getitem")
        if is_view and name not in _COPYING and op.ins:
            root = roots.get(op.ins[0], op.ins[0])
            roots.update(dict.fromkeys(op.outs, root))
    return roots
