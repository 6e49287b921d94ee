"""Kinds of kernel: what a piece computes, whatever its sizes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from flashinfer_bench.decompose.classes import key
from flashinfer_bench.decompose.emit.definitions import op_type_of
from flashinfer_bench.decompose.ir import Named, Plain, Ref, Span

if TYPE_CHECKING:
    from flashinfer_bench.decompose.ir import OpTrace
    from flashinfer_bench.decompose.pieces import Pieces

_DIGITS = 12
_NUMBER = "#"


def kernel_kinds(pieces: Pieces) -> dict[str, list[Any]]:
    """Count a model's kernels by kind: `{kind: [op type, calls]}`."""
    found: dict[str, list[Any]] = {}
    for piece in pieces.all:
        if piece.node.level == "kernel":
            kind = kind_of(pieces.trace, piece.form)
            met = found.setdefault(kind, [op_type_of(piece), 0])
            met[1] += len(piece.instances)
    return dict(sorted(found.items()))


def kind_of(trace: OpTrace, form: Any) -> str:
    """Hash the operations of a piece and how they are connected; sizes and other numbers do not count."""
    numbers = {value: at for at, value in enumerate(form.inputs)}
    ops = []
    for op in form.ops:
        args = _shape_free(op.args, numbers)
        named = {name: _shape_free(each, numbers) for name, each in sorted(op.kwargs.items())}
        for value in op.outs:
            numbers.setdefault(value, len(numbers))
        ops.append([key(op.fn), args, named])
    dtypes = [trace.values[value].dtype for value in form.inputs]
    content = [dtypes, ops, [numbers[value] for value in form.outputs]]
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def _shape_free(argument: Any, numbers: Mapping[str, int]) -> Any:
    """Write an argument with a sign for each number, and one sign for a list of numbers."""
    match argument:
        case Ref():
            return ["value", numbers[argument.id]]
        case Named():
            return "" if argument.kind in ("device", "generator") else argument.name
        case Span():
            return [_shape_free(each, numbers) for each in (argument.start, argument.stop)]
        case Plain():
            return _shape_free(argument.value, numbers)
        case tuple() | list():
            made = [_shape_free(each, numbers) for each in argument]
            return _NUMBER if made and all(each == _NUMBER for each in made) else made
        case Mapping():
            return {str(name): _shape_free(each, numbers) for name, each in argument.items()}
        case None | bool() | str():
            return argument
        case _:
            return _NUMBER
