"""Where the wrong elements of an output lie: the last tile, every nth row, one head, above the diagonal."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from flashinfer_bench.judging.diagnosis import AxisPattern, WrongRegion

if TYPE_CHECKING:
    from collections.abc import Sequence

_PERIODS = (2, 3, 4, 5, 6, 7, 8, 16, 32, 64, 128, 256, 512, 1024)
_DENSE = 0.3
"""Share of a region that must be wrong: some wrong elements are within the tolerance by chance."""
_NEARLY_ALL = 0.9
"""Share of an axis's indices: what is right in the others is so by chance."""
_LEAST_BEFORE = 0.05
"""Share of elements that must be right before a run up to the end: the first few are so by chance."""
_FEWEST_OF_A_PERIOD = 4
_DIMENSIONS_OF_A_MATRIX = 2


def region_of(bad: torch.Tensor, axes: Sequence[str]) -> WrongRegion:
    """Find the shape of the wrong elements; `bad` is boolean, in the output's shape, with a True somewhere.

    >>> bad = torch.zeros(4, 300, dtype=torch.bool)
    >>> bad[:, 256:] = True
    >>> region_of(bad, ("rows", "n")).text
    'the last 44 of 300 along n'
    """
    if not bad.dim():
        return WrongRegion("everywhere", "the only element")
    patterns = [_pattern(bad, number, name) for number, name in enumerate(axes)]
    limited = tuple(each for each in patterns if each.kind != "all")
    shaped = tuple(each for each in limited if each.kind != "scattered")
    count = int(bad.sum())
    within = math.prod(each.count for each in patterns)
    density = round(count / within, 4)
    diagonal = _triangle(bad)
    if diagonal is not None:
        return WrongRegion(diagonal, f"only {diagonal.replace('_', ' the ')}", limited, density)
    if shaped and density >= _DENSE and len(shaped) == len(limited):
        kind = shaped[0].kind if len(shaped) == 1 else "tile"
        return WrongRegion(kind, " and ".join(map(_text, shaped)), limited, density)
    start = _flat_start(bad, count)
    if start:
        text = f"the last {bad.numel() - start} of {bad.numel()} elements in memory order"
        flat = AxisPattern("elements", bad.numel(), "last", bad.numel() - start, start, bad.numel())
        return WrongRegion("flat_last", text, (flat,), round(count / (bad.numel() - start), 4))
    if not limited and density >= _DENSE:
        return WrongRegion("everywhere", "everywhere", (), density)
    if shaped:
        kind = shaped[0].kind if len(shaped) == 1 else "tile"
        if density >= _DENSE:
            return WrongRegion(kind, " and ".join(map(_text, shaped)), limited, density)
    return WrongRegion("scattered", f"{count} elements here and there", limited, density)


def _pattern(bad: torch.Tensor, number: int, name: str) -> AxisPattern:
    others = [each for each in range(bad.dim()) if each != number]
    touched = bad.any(dim=others) if others else bad
    indices = touched.nonzero().reshape(-1)
    size, count = bad.shape[number], len(indices)
    first, last = int(indices[0]), int(indices[-1])
    period = None
    if count == size:
        kind = "all"
    elif last - first + 1 == count:
        kind = _run(first, last, count, size)
    else:
        period = _period(touched, count)
        kind = "periodic" if period else "all" if count > _NEARLY_ALL * size else "scattered"
    return AxisPattern(name, size, kind, count, first, last + 1, period)


def _run(first: int, last: int, count: int, size: int) -> str:
    if last == size - 1:
        return "last"
    if first == 0:
        return "first"
    return "one" if count == 1 else "block"


def _period(touched: torch.Tensor, count: int) -> int | None:
    """Find the smallest step at which the same indices come again."""
    size = len(touched)
    places = torch.arange(size, device=touched.device)
    for period in _PERIODS:
        if size < _FEWEST_OF_A_PERIOD * period and period > _FEWEST_OF_A_PERIOD:
            break
        hit = torch.zeros(period, dtype=torch.bool, device=touched.device)
        hit[places[touched] % period] = True
        if bool(hit.all()):
            continue
        if int(hit[places % period].sum()) == count:
            return period
    return None


def _flat_start(bad: torch.Tensor, count: int) -> int:
    """Give where a dense run up to the end begins; 0 where there is none."""
    flat = bad.reshape(-1)
    start = int(flat.to(torch.uint8).argmax())
    length = len(flat) - start
    is_dense = count >= _DENSE * length and bool(flat[-max(1, length // 8) :].any())
    return start if is_dense and start >= _LEAST_BEFORE * len(flat) else 0


def _triangle(bad: torch.Tensor) -> str | None:
    """Tell whether all wrong elements of square matrices lie on one side of the diagonal, and fill it."""
    if bad.dim() < _DIMENSIONS_OF_A_MATRIX or bad.shape[-1] != bad.shape[-2]:
        return None
    size = bad.shape[-1]
    if size < _FEWEST_OF_A_PERIOD:
        return None
    flat = bad.reshape(-1, size, size).any(0)
    count = int(flat.sum())
    for name, kept in (("above_diagonal", flat.triu(1)), ("below_diagonal", flat.tril(-1))):
        if int(kept.sum()) == count and count >= _DENSE * size * (size - 1) / 2:
            return name
    return None


def _text(pattern: AxisPattern) -> str:
    """Say it in words."""
    size, along = pattern.size, f"along {pattern.axis}"
    match pattern.kind:
        case "last":
            what = "the last" if pattern.count == 1 else f"the last {pattern.count}"
            return f"{what} of {size} {along}"
        case "first":
            what = "the first" if pattern.count == 1 else f"the first {pattern.count}"
            return f"{what} of {size} {along}"
        case "one":
            return f"index {pattern.start} of {size} {along}"
        case "periodic":
            many = pattern.count * (pattern.period or 1) // size
            share = "one" if many <= 1 else str(many)
            return f"{share} in every {pattern.period} {along}, from {pattern.start}"
        case _:
            return f"{pattern.start} to {pattern.stop - 1} of {size} {along}"
