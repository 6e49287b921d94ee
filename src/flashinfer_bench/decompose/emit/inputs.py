"""Legal inputs of a piece as Python source."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from flashinfer_bench.data.distributions import (
    Boolean,
    FloatForm,
    Integers,
    Normal,
    Probabilities,
    Uniform,
)
from flashinfer_bench.decompose.emit.code import wrapped
from flashinfer_bench.decompose.emit.constants import spread_of, written
from flashinfer_bench.decompose.emit.legal import legal_input
from flashinfer_bench.decompose.own_values import is_float

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from flashinfer_bench.data.distributions import Distribution
    from flashinfer_bench.decompose.emit.legal import LegalInput
    from flashinfer_bench.decompose.ir import Value
    from flashinfer_bench.decompose.pieces import Piece, Pieces

_LINE = 92


def get_inputs(pieces: Pieces, piece: Piece) -> list[str]:
    """Write a function that makes an input for each parameter."""
    lines = ["generator = torch.Generator().manual_seed(seed)"]
    for name, value in zip(piece.parameters, piece.form.inputs, strict=True):
        lines += _made(name, pieces.trace.values[value], _chosen(pieces, piece, value))
    listed = _listed(piece.parameters)
    head = ["def get_inputs(seed=0):", '    """Draw legal values for all parameters of forward."""']
    return [*head, *(f"    {line}" for line in [*lines, *listed])]


def _listed(names: list[str]) -> list[str]:
    line = f"return [{', '.join(names)}]"
    if len(line) <= _LINE:  # a line, indented
        return [line]
    return ["return [", *(f"    {name}," for name in names), "]"]


def _chosen(pieces: Pieces, piece: Piece, value: str) -> LegalInput:
    ops = frozenset(op.id for op in piece.form.ops)
    return legal_input(pieces.trace, value, ops, pieces.own)


def same_each_time(pieces: Pieces, piece: Piece) -> frozenset[str]:
    """Find the inputs that are the same numbers whatever the seed: the model's own, and those of which there is one."""
    chosen = {value: _chosen(pieces, piece, value) for value in piece.form.inputs}
    return frozenset(
        value for value, each in chosen.items() if _is_same(pieces.trace.values[value], each)
    )


def _is_same(value: Value, chosen: LegalInput) -> bool:
    if chosen.stored is not None:
        return bool(written(chosen.stored))
    match chosen.distribution:
        case Integers(low=int() as low, high=int() as high):
            return chosen.count is None and high - low == 1  # the number of the only expert
        case Probabilities():
            return value.shape[-1:] == (1,)
        case _:
            return False


def stored_numbers(pieces: Pieces, piece: Piece) -> list[torch.Tensor]:
    """Give the inputs that are the model's own numbers."""
    chosen = [_chosen(pieces, piece, value).stored for value in piece.form.inputs]
    return [stored for stored in chosen if stored is not None]


def _made(name: str, found: Value, chosen: LegalInput) -> list[str]:
    if chosen.count is not None:
        return _counted(name, found, chosen.count)
    if chosen.stored is not None:
        text = written(chosen.stored) or _expression(found, spread_of(chosen.stored))
        return wrapped(f"{name} = ", text)
    lines = [f"{name} = {_expression(found, chosen.distribution)}"]
    if chosen.first is not None and found.shape:
        lines.append(f"{name}[..., 0] = {chosen.first}")
    return lines


def _counted(name: str, value: Value, count: int) -> list[str]:
    """Draw a mask, of booleans or integers, of which so many elements are true."""
    cast = "" if value.dtype == "bool" else f".to(torch.{value.dtype})"
    total = math.prod(value.shape)
    return [
        f"{name} = torch.zeros({total}, dtype=torch.bool)",
        f"{name}[torch.randperm({total}, generator=generator)[:{count}]] = True",
        f"{name} = {name}.reshape({_tuple(value.shape)}){cast}",
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
        case FloatForm(form="zero_or_one"):
            return f"torch.randint(0, 2, {shape}, generator=generator).to(torch.{value.dtype})"
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
