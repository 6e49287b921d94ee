"""The model's own numbers as Python source, and as a declared distribution where one has their form."""

from __future__ import annotations

import base64
import zlib
from typing import TYPE_CHECKING

import torch

from flashinfer_bench.data.distributions import IndexPointers, Integers, Normal, Permutation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flashinfer_bench.data.distributions import Distribution

_LISTED = 32
"""So many elements are written one by one."""
_MOST_CHARACTERS = 24_000
"""Of a constant within a file."""
_NAMES = {float("inf"): 'float("inf")', float("-inf"): 'float("-inf")'}


def written(numbers: torch.Tensor) -> str | None:
    """Write an expression that makes these numbers; none where it would be too long."""
    for text in _formulas(numbers):
        if _makes(text, numbers):
            return text
    return _packed(numbers)


def spread_of(numbers: torch.Tensor) -> Distribution:
    """Say how numbers that are too many to be written are spread."""
    if not (numbers.is_floating_point() or numbers.is_complex()):
        return Integers(low=int(numbers.min()), high=int(numbers.max()) + 1)
    real = torch.view_as_real(numbers.resolve_conj()) if numbers.is_complex() else numbers
    finite = real[real.isfinite()].double()
    if finite.numel() == 0:
        return Normal()
    return Normal(mean=_rounded(finite.mean()), std=_rounded(finite.std(correction=0)) or 1.0)


def form_of(numbers: torch.Tensor) -> Distribution | None:
    """Find the distribution whose form integers have: rows of permutations, or index pointers."""
    if (
        numbers.dtype not in (torch.int8, torch.int16, torch.int32, torch.int64)
        or not numbers.dim()
    ):
        return None
    length = numbers.shape[-1]
    if length < 2:  # noqa: PLR2004  # one number has no order
        return None
    counted = torch.arange(length, dtype=numbers.dtype).expand(numbers.shape)
    if torch.equal(numbers, counted):  # positions, not an order
        return None
    if torch.equal(numbers.sort(-1).values, counted):
        return Permutation()
    steps = numbers.diff()
    is_pointers = numbers.dim() == 1 and not numbers[0] and bool((steps >= 0).all()) and numbers[-1]
    if not is_pointers:
        return None
    least, most = int(steps.min()), int(steps.max())
    return IndexPointers(total=int(numbers[-1]), shortest=min(least, 1), longest=most)


def _rounded(number: torch.Tensor) -> float:
    return float(f"{float(number):.3g}")


def _formulas(numbers: torch.Tensor) -> Iterator[str]:
    """Propose expressions, the shortest first."""
    dtype = f"dtype={numbers.dtype}"
    shape = tuple(numbers.shape)
    flat = numbers.reshape(-1)
    if numbers.is_complex() or not numbers.numel():
        return
    first = _number(flat[0])
    yield f"torch.full({shape}, {first}, {dtype})"
    if numbers.numel() <= _LISTED:
        text = repr(numbers.tolist()).replace("inf", 'float("inf")').replace("nan", 'float("nan")')
        yield f"torch.tensor({text}, {dtype})"
    if not numbers.dim():
        return
    if numbers.dtype != torch.bool:
        last = shape[-1]
        yield f"torch.arange({first}, {first} + {last}, {dtype}).repeat({(*shape[:-1], 1)})"
    if numbers.dim() > 1:
        yield from _triangles(numbers, shape, dtype)


def _triangles(numbers: torch.Tensor, shape: tuple[int, ...], dtype: str) -> Iterator[str]:
    """A value up to a diagonal and another beyond it."""
    matrix = numbers.reshape(-1, *shape[-2:])[0]
    low, high = matrix[-1, 0], matrix[0, -1]
    diagonal = int((matrix[0] == low).sum()) - 1
    triangle = f"torch.ones({shape}, dtype=torch.bool).tril({diagonal})"
    if numbers.dtype == torch.bool:
        yield triangle if bool(low) else f"~{triangle}"
        return
    yield f"torch.where({triangle}, {_number(low)}, {_number(high)}).to({dtype[6:]})"


def _number(element: torch.Tensor) -> str:
    number = element.item()
    return _NAMES.get(number, repr(number))


def _makes(text: str, numbers: torch.Tensor) -> bool:
    try:
        made: torch.Tensor = eval(text, {"torch": torch})  # noqa: S307  # written above, from numbers
    except RuntimeError:  # a number that the dtype has not
        return False
    return made.dtype == numbers.dtype and torch.equal(made, numbers)


def _packed(numbers: torch.Tensor) -> str | None:
    """Write numbers as compressed bytes."""
    if not numbers.numel():
        return f"torch.zeros({tuple(numbers.shape)}, dtype={numbers.dtype})"
    raw = numbers.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    text = base64.b85encode(zlib.compress(raw, 9)).decode()
    if len(text) > _MOST_CHARACTERS:
        return None
    shape = tuple(numbers.shape)
    opened = f'bytearray(zlib.decompress(base64.b85decode("{text}")))'
    return f"torch.frombuffer({opened}, dtype={numbers.dtype}).reshape({shape})"
