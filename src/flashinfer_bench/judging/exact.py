"""Bit by bit: what a cast, a copy or a permutation must give."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from flashinfer_bench.judging import elementwise
from flashinfer_bench.judging.case import JudgeVerdict, Tolerance
from flashinfer_bench.tensors.dtypes import BITS_OF

if TYPE_CHECKING:
    import torch


def compare_bits(got: torch.Tensor, expected: torch.Tensor, tolerance: Tolerance) -> JudgeVerdict:
    """Compare one output with the expected one; same shape, dtype and device.

    Every element must have the same bits: 0.0 is not −0.0. One NaN is as good as another. No share of
    wrong elements is forgiven.
    """
    if not got.dtype.is_floating_point:
        return elementwise.compare(got, expected, replace(tolerance, required_matched_ratio=None))
    bad = _bits(got) != _bits(expected)
    bad &= ~(got.isnan() & expected.isnan())
    bad_count = int(bad.sum())
    if not bad_count:
        return JudgeVerdict(is_accepted=True)
    nothing = Tolerance(rtol=0.0, atol=0.0)
    seen = elementwise.compare(got, expected, nothing)
    return replace(
        seen,
        is_accepted=False,
        matched_ratio=1 - bad_count / got.numel(),
        explanation=seen.explanation or _signs(bad, bad_count),
    )


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().view(BITS_OF[tensor.element_size()])


def _signs(bad: torch.Tensor, bad_count: int) -> str:
    """The one difference that values do not show."""
    index = bad.nonzero()[0].tolist()
    return f"{bad_count} of {bad.numel()} elements differ in the sign of zero, the first at {index}"
