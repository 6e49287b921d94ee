"""What `forward` of a piece does: its operations one after another, or calls of its children."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashinfer_bench.decompose.emit.code import Body, definition, function_body, wrapped
from flashinfer_bench.decompose.identity import snake
from flashinfer_bench.decompose.pieces import Piece, Pieces, Unit, units

if TYPE_CHECKING:
    from collections.abc import Sequence


_LINE = 100


def flat_class(piece: Piece, name: str) -> list[str]:
    """Write a piece as a module that runs all its operations itself."""
    return _module(piece, name, [], function_body(piece.form, piece.parameters))


def refactored_class(pieces: Pieces, piece: Piece, name: str) -> list[str]:
    """Write a parent as a module that calls its children, with plumbing between."""
    if piece.node.is_leaf:
        return flat_class(piece, name)
    children = list(dict.fromkeys((child.id, child.class_name) for child in piece.children))
    init = ["super().__init__()", *(f"self.{held} = {made}()" for held, made in children)]
    return _module(piece, name, init, _calls(pieces, piece))


def _module(piece: Piece, name: str, init: Sequence[str], body: Sequence[str]) -> list[str]:
    lines = [f"class {name}(nn.Module):", f'    """{summary(piece)}"""', ""]
    if init:
        lines += [f"    {line}" for line in definition("def __init__", ["self"], init)] + [""]
    head = definition("def forward", ["self", *piece.parameters], body)
    return lines + [f"    {line}" if line else "" for line in head]


def summary(piece: Piece) -> str:
    """Say in a line what a piece is."""
    said = piece.node.reason.replace("\\", "/").replace('"""', "'''").strip().rstrip(".")
    text = f"{piece.node.name}: {said}." if said else f"{piece.node.name}."
    line = " ".join(text.split())
    return line if len(line) <= _LINE else f"{line[:96].rstrip()} …"  # a line


def _calls(pieces: Pieces, piece: Piece) -> list[str]:
    body = Body(piece.form, piece.parameters)
    ops = {op.id: op for op in piece.form.ops}
    body.open_axes([ops[number] for number in piece.node.ops])
    for unit in units(pieces.trace, piece.node):
        if unit.child is None:
            body.add(ops[unit.first])
        else:
            body.lines += _call(body, piece.children[unit.child], unit)
    return body.finish(piece.form.outputs)


def _call(body: Body, child: Piece, unit: Unit) -> list[str]:
    given = ", ".join(body.values[value] for value in unit.inputs)
    stem = snake(child.node.name)
    for value in unit.outputs:
        body.values[value] = body.names.take(stem)
    targets = ", ".join(body.values[value] for value in unit.outputs)
    return wrapped(f"{targets} = " if targets else "", f"self.{child.id}({given})")
