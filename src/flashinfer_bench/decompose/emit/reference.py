"""A piece as a free function `run`: the reference of its definition, and its eager baseline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashinfer_bench.decompose.classes import TABLE, key
from flashinfer_bench.decompose.emit.code import Body, definition
from flashinfer_bench.decompose.emit.forward import summary

if TYPE_CHECKING:
    from flashinfer_bench.decompose.pieces import Piece

_COPYING = frozenset({"clone", "tensor", "as_tensor"})


def reference(piece: Piece) -> str:
    """Write the module that defines `run`."""
    body = Body(piece.form, piece.parameters)
    body.open_axes(piece.form.ops)
    for op in piece.form.ops:
        body.add(op)
    _part_outputs(body, piece)
    lines = [f'"""{summary(piece)}"""', *body.finish(piece.form.outputs)]
    text = "\n".join(definition("def run", piece.parameters, lines))
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
