"""Legal inputs of a piece as Python source."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from flashinfer_bench.data.distributions import (
    Boolean,
    Integers,
    Normal,
    Probabilities,
    Uniform,
)
from flashinfer_bench.decompose.emit.legal import is_float, legal_input

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from flashinfer_bench.data.distributions import Distribution
    from flashinfer_bench.decompose.ir import OpTrace, Value
    from flashinfer_bench.decompose.pieces import Piece

_LINE = 92


def get_inputs(trace: OpTrace, piece: Piece) -> list[str]:
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


def _drawn(name: str, trace: OpTrace, value: str, ops: Collection[int]) -> list[str]:
    found = trace.values[value]
    chosen = legal_input(trace, value, ops)
    if chosen.count is not None:
        return _counted(name, found, chosen.count)
    lines = [f"{name} = {_expression(found, chosen.distribution)}"]
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


def _expression(value: Value, distribution: Distribution) -> str:
    shape = _tuple(value.shape)
    match distribution:
        case Integers(low=low, high=high):
            dtype = "" if value.dtype == "int64" else f", dtype=torch.{value.dtype}"
            return f"torch.randint({low}, {high}, {shape}, generator=generator{dtype})"
        case Boolean(rate=rate):
            return f"torch.rand({shape}, generator=generator) < {rate}"
        case Uniform(low=low, high=high):
            drawn = f"{low} + {high - low:.6g} * torch.rand({shape}, generator=generator%s)"
            drawn = drawn.removeprefix("0.0 + 1 * ")
        case Probabilities():
            drawn = f"torch.randn({shape}, generator=generator%s).softmax(-1)"
        case Normal(mean=mean, std=std):
            scale = "" if std == 1 else f"{std} * "
            offset = "" if mean == 0 else f"{mean} + "
            drawn = f"{offset}{scale}torch.randn({shape}, generator=generator%s)"
        case _:
            raise AssertionError(f"no input is made of {distribution.type!r}")
    return _converted(drawn, value.dtype)


def _converted(drawn: str, dtype: str) -> str:
    if dtype == "float32":
        return drawn % ""
    if dtype in ("float64", "complex64", "complex128"):
        return drawn % f", dtype=torch.{dtype}"
    plain = drawn % ""
    is_call = plain.startswith("torch.")
    assert is_float(dtype)
    return f"{plain}.to(torch.{dtype})" if is_call else f"({plain}).to(torch.{dtype})"
