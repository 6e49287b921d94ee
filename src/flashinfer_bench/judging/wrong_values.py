"""What can be measured of a wrong output: how many elements are how wrong, where, and by what factor."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from flashinfer_bench.judging.diagnosis import ErrorBin, RepeatedCall, WrongValues
from flashinfer_bench.judging.wrong_places import region_of
from flashinfer_bench.tensors.dtypes import dtype_name
from flashinfer_bench.tensors.outputs import unwritten

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.judging.case import Tolerance

_RELATIVE_FLOOR = 1e-8  # as the judge's
_MOST_ELEMENTS = 1 << 22
"""Ratios and correlations are taken over as many elements, evenly spread."""
_LOWEST, _HIGHEST = -8, 8
_NOTABLE = 0.05
"""Of the root mean square: a ratio of smaller elements is rounding."""
_FEWEST = 4
_QUARTILES = 4


@dataclass(frozen=True, slots=True)
class WrongOutput:
    """One output that is wrong, as tensors of one shape and dtype."""

    name: str
    axes: tuple[str, ...]
    got: torch.Tensor
    expected: torch.Tensor
    bad: torch.Tensor
    """Which elements are wrong."""
    again: torch.Tensor | None = None
    """What the same call gave when it was made once more."""


def wrong_elements(got: torch.Tensor, expected: torch.Tensor, tolerance: Tolerance) -> torch.Tensor:
    """Tell which elements are off by more than the tolerance; NaN and infinity must stand where expected."""
    if not got.dtype.is_floating_point:
        return got != expected
    ours, theirs = wide(got), wide(expected)
    error = (ours - theirs).abs()
    bad = (error > tolerance.atol) & (error / (theirs.abs() + _RELATIVE_FLOOR) > tolerance.rtol)
    special = ~(ours.isfinite() & theirs.isfinite())
    same = (ours == theirs) | (ours.isnan() & theirs.isnan())
    return torch.where(special, ~same, bad)


def wide(tensor: torch.Tensor) -> torch.Tensor:
    """Give a tensor in a type that holds its values: float32, or float64 for what is wider."""
    is_wide = tensor.dtype in {torch.float64, torch.int32, torch.int64}
    return tensor.to(torch.float64 if is_wide else torch.float32)


def measured(
    output: WrongOutput, *, place: str, tolerance: Tolerance, repeated: RepeatedCall | None = None
) -> WrongValues:
    """Measure a wrong output."""
    got, expected, bad = output.got, output.expected, output.bad
    ours, theirs = wide(got), wide(expected)
    left_out = unwritten(got) if got.dtype.is_floating_point else None
    factor, spread = factor_of(output)
    correlation, relative_rms = likeness(ours, theirs)
    if repeated is None and output.again is not None:
        repeated = RepeatedCall(int(wrong_elements(output.again, got, tolerance).sum()))
    return WrongValues(
        output=output.name,
        shape=tuple(got.shape),
        dtype=dtype_name(got.dtype),
        place=place,
        elements=got.numel(),
        wrong=int(bad.sum()),
        unwritten=0 if left_out is None else int((left_out.view(bad.shape) & bad).sum()),
        zeros=int(((ours == 0) & bad).sum()),
        nans=int((ours.isnan() & bad).sum()),
        infinities=int((ours.isinf() & bad).sum()),
        region=region_of(bad, output.axes),
        histogram=_histogram(ours, theirs),
        correlation=correlation,
        relative_rms=relative_rms,
        factor=factor,
        factor_spread=spread,
        repeated=repeated,
    )


def sampled(*tensors: torch.Tensor) -> list[torch.Tensor]:
    """Give the same elements of tensors of one shape, flat: all, or evenly spread ones."""
    step = -(-tensors[0].numel() // _MOST_ELEMENTS) or 1
    return [each.reshape(-1)[::step] for each in tensors]


def factor_of(output: WrongOutput) -> tuple[float | None, float | None]:
    """Give the median of got / expected over notable wrong elements, and its relative spread."""
    ratios = ratios_of(output)
    if len(ratios) < _FEWEST:
        return None, None
    low, middle, high = quartiles(ratios)
    if not middle:
        return rounded(middle), None
    return rounded(middle), rounded((high - low) / abs(middle))


def ratios_of(output: WrongOutput) -> torch.Tensor:
    """Give got / expected of the wrong elements that are finite and not small."""
    got, expected, bad = sampled(wide(output.got), wide(output.expected), output.bad)
    kept = bad & got.isfinite() & expected.isfinite() & (expected.abs() > _NOTABLE * _rms(expected))
    return (got[kept] / expected[kept]).double()


def quartiles(values: torch.Tensor) -> tuple[float, float, float]:
    """Give the first quartile, the median and the third quartile."""
    ordered = values.sort().values
    low, middle, high = (
        float(ordered[(len(ordered) - 1) * number // _QUARTILES]) for number in (1, 2, 3)
    )
    return low, middle, high


def likeness(ours: torch.Tensor, theirs: torch.Tensor) -> tuple[float | None, float | None]:
    """Give correlation and relative root mean square error over elements finite in both."""
    got, expected = sampled(ours, theirs)
    kept = got.isfinite() & expected.isfinite()
    got, expected = got[kept].double(), expected[kept].double()
    if len(got) < _FEWEST or not bool(expected.any()):
        return None, None
    error = _rms(got - expected) / _rms(expected)
    one, two = got - got.mean(), expected - expected.mean()
    size = float(one.norm() * two.norm())
    correlation = float(one @ two) / size if size else None
    return (None if correlation is None else rounded(correlation)), rounded(error)


def rounded(value: float) -> float | None:
    """Keep four digits; None for what is no number.

    >>> rounded(0.123456)
    0.1235
    """
    return float(f"{value:.4g}") if math.isfinite(value) else None


def _rms(values: torch.Tensor) -> float:
    finite = values[values.isfinite()].double()
    return float(finite.square().mean().sqrt()) if len(finite) else 0.0


def _histogram(ours: torch.Tensor, theirs: torch.Tensor) -> tuple[ErrorBin, ...]:
    """Count finite absolute errors, by the power of ten that they do not exceed."""
    error = (ours - theirs).abs().reshape(-1)
    error = error[error.isfinite() & (error > 0)]
    if not len(error):
        return ()
    powers = error.log10().ceil().clamp(_LOWEST, _HIGHEST).to(torch.int64) - _LOWEST
    counts: Sequence[int] = torch.bincount(powers).tolist()
    return tuple(
        ErrorBin(float(f"1e{number + _LOWEST}"), count)
        for number, count in enumerate(counts)
        if count
    )
