"""Legal inputs of a piece as Python source."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from flashinfer_bench.decompose.emit.legal import Draw, draw, is_float

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from flashinfer_bench.decompose.ir import Trace, Value
    from flashinfer_bench.decompose.pieces import Piece

_LINE = 92


def get_inputs(trace: Trace, piece: Piece) -> list[str]:
    """Write a function that draws an input for each parameter."""
    ops = frozenset(op.id for op in piece.form.ops)
    lines = ["generator = torch.Generator().manual_seed(seed)"]
    for name, value in zip(piece.parameters, piece.form.inputs, strict=True):
        lines += _drawn(name, trace, value, ops)
    listed = _listed(piece.parameters)
    head = ["def get_inputs(seed=0):", '    """Draw legal values for all parameters of forward."""']
    return [*head, *(f"    {line}" for line in [*lines, *listed])]


def _listed(names: list[str]) -> list[str]:
    line = f"return [{', '.join(names)}]"
    if len(line) <= _LINE:  # a line, indented
        return [line]
    return ["return [", *(f"    {name}," for name in names), "]"]


def _drawn(name: str, trace: Trace, value: str, ops: Collection[int]) -> list[str]:
    found = trace.values[value]
    chosen = draw(trace, value, ops)
    if chosen.count is not None:
        return _counted(name, found, chosen.count)
    lines = [f"{name} = {_expression(found, chosen)}"]
    if chosen.first is not None and found.shape:
        lines.append(f"{name}[..., 0] = {chosen.first}")
    return lines


def _counted(name: str, value: Value, count: int) -> list[str]:
    """Draw a mask of which so many elements are true."""
    total = math.prod(value.shape)
    return [
        f"{name} = torch.zeros({total}, dtype=torch.bool)",
        f"{name}[torch.randperm({total}, generator=generator)[:{count}]] = True",
        f"{name} = {name}.reshape({_tuple(value.shape)})",
    ]


def _tuple(shape: Sequence[int]) -> str:
    return repr(tuple(shape))


def _expression(value: Value, chosen: Draw) -> str:
    shape = _tuple(value.shape)
    match chosen.kind:
        case "integers":
            dtype = "" if value.dtype == "int64" else f", dtype=torch.{value.dtype}"
            low, high = int(chosen.low), int(chosen.high)
            return f"torch.randint({low}, {high}, {shape}, generator=generator{dtype})"
        case "boolean":
            return f"torch.rand({shape}, generator=generator) < {chosen.low}"
        case "uniform":
            width = f"{chosen.high - chosen.low:.6g}"
            drawn = f"{chosen.low} + {width} * torch.rand({shape}, generator=generator%s)"
            drawn = drawn.removeprefix("0.0 + 1 * ")
        case "probabilities":
            drawn = f"torch.randn({shape}, generator=generator%s).softmax(-1)"
        case _:
            drawn = _normal(shape, chosen)
    return _converted(drawn, value.dtype)


def _normal(shape: str, chosen: Draw) -> str:
    scale = "" if chosen.high == 1 else f"{chosen.high} * "
    offset = "" if chosen.low == 0 else f"{chosen.low} + "
    return f"{offset}{scale}torch.randn({shape}, generator=generator%s)"


def _converted(drawn: str, dtype: str) -> str:
    if dtype == "float32":
        return drawn % ""
    if dtype in ("float64", "complex64", "complex128"):
        return drawn % f", dtype=torch.{dtype}"
    plain = drawn % ""
    is_call = plain.startswith("torch.")
    assert is_float(dtype)
    return f"{plain}.to(torch.{dtype})" if is_call else f"({plain}).to(torch.{dtype})"
