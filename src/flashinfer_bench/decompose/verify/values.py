"""Recognise a tensor without keeping it, and say how far two tensors are apart."""

from __future__ import annotations

import hashlib
import itertools
import math
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from flashinfer_bench.tensors.dtypes import BITS_OF

if TYPE_CHECKING:
    from collections.abc import Iterable

_PIECE = 1 << 20
_MIX = (0x9E3779B97F4A7C15 - (1 << 64), 0xBF58476D1CE4E5B9 - (1 << 64))
"""Odd constants of splitmix64, as signed integers."""

TOLERANCE = {
    torch.float64: 1e-10,
    torch.float32: 2e-5,
    torch.float16: 1.5e-3,
    torch.bfloat16: 5e-3,
    torch.complex64: 2e-5,
    torch.complex128: 1e-10,
}
"""Largest relative error by dtype where bits differ; a hundredth too much is never within."""


@dataclass(frozen=True)
class Fingerprint:
    """A tensor's fingerprint."""

    dtype: str
    count: int
    ordered: bytes
    """Of the elements in row-major order, whatever the shape."""
    unordered: int
    """Of the elements in any order: equal for a permuted view."""


def mark(tensor: torch.Tensor) -> Fingerprint:
    """Fingerprint a tensor's numbers; both zeros count as one."""
    flat = _real(tensor)
    flat = flat.detach().resolve_neg().reshape(-1).cpu()
    digest = hashlib.blake2b(digest_size=16)
    total = 0
    for piece in torch.split(flat, _PIECE) if flat.numel() else ():
        bits = _bits(piece)
        digest.update(bits.numpy().data)
        total += int(_mixed(bits).sum())
    return Fingerprint(str(tensor.dtype), tensor.numel(), digest.digest(), total % (1 << 64))


class Marker:
    """Marks tensors; one that was marked before and not written to since is not looked at again."""

    def __init__(self) -> None:
        self._met: dict[int, tuple[weakref.ref[torch.Tensor], int, Fingerprint]] = {}

    def __call__(self, tensor: torch.Tensor) -> Fingerprint:
        """Give a tensor's mark."""
        if tensor.is_inference():  # nobody counts what is written to it
            return mark(tensor)
        found = self._met.get(id(tensor))
        if found is not None and found[0]() is tensor and found[1] == tensor._version:
            return found[2]
        made = mark(tensor)
        self._met[id(tensor)] = weakref.ref(tensor), tensor._version, made
        return made


def _bits(piece: torch.Tensor) -> torch.Tensor:
    if piece.dtype == torch.bool:
        return piece.to(torch.uint8)
    if piece.is_floating_point() and piece.element_size() > 1:
        piece = piece + 0.0  # of both zeros it makes the positive one
    return piece.contiguous().view(BITS_OF[piece.element_size()])


def _mixed(bits: torch.Tensor) -> torch.Tensor:
    mixed = bits.to(torch.int64, copy=True).bitwise_xor_(_MIX[0]).mul_(_MIX[1])
    return mixed.bitwise_xor_(mixed >> 29).mul_(_MIX[0])


def copied(tensor: torch.Tensor) -> torch.Tensor:
    """Copy a tensor with its strides, on which the order of sums and the last bit may depend."""
    tensor = tensor.detach()
    once = tensor[tuple(slice(1) if step == 0 else slice(None) for step in tensor.stride())]
    reach = sorted(zip(once.stride(), once.shape, strict=True))
    apart = all(step >= past * size for (past, size), (step, _) in itertools.pairwise(reach))
    if not apart or not once.numel():  # windows that overlap
        return tensor.clone()
    there = torch.empty_strided(once.shape, once.stride(), dtype=tensor.dtype, device=tensor.device)
    return there.copy_(once).expand(tensor.shape)


def is_same(got: torch.Tensor, expected: torch.Tensor) -> bool:
    """Whether two tensors are equal in shape, dtype and every bit that counts; NaN equals NaN."""
    if got.shape != expected.shape or got.dtype != expected.dtype:
        return False
    if torch.equal(got, expected):
        return True
    return bool(torch.isnan(expected).any()) and mark(got) == mark(expected)


def error(got: torch.Tensor, expected: torch.Tensor) -> float:
    """Relative error of two tensors with as many elements: of the whole, or of the worst element if that is far off."""
    if got.numel() != expected.numel() or got.dtype != expected.dtype:
        return math.inf
    if got.numel() == 0:
        return 0.0
    left, right = (_comparable(each) for each in (got, expected))
    finite = torch.isfinite(right)
    if not torch.equal(finite, torch.isfinite(left)):
        return math.inf
    left, right = left[finite], right[finite]
    gap = left - right
    size = right.norm()
    if not gap.any():
        return 0.0
    whole = float(gap.norm() / size) if size else math.inf
    worst = float(gap.abs().max() / (size / math.sqrt(max(1, right.numel())) + right.abs().max()))
    return max(whole, worst / 16)


def _comparable(tensor: torch.Tensor) -> torch.Tensor:
    return _real(tensor).detach().reshape(-1).to(torch.float64)


def _real(tensor: torch.Tensor) -> torch.Tensor:
    """Give complex numbers as pairs; those that stand to be conjugated are."""
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def tolerance(dtype: torch.dtype) -> float:
    """How far apart tensors of a dtype may be that are computed in different ways; integers not at all."""
    return TOLERANCE.get(dtype, 0.06 if dtype.is_floating_point else 0.0)


def is_constant(tensor: torch.Tensor) -> bool:
    """Whether a tensor of more than one element has one value everywhere."""
    return tensor.numel() > 1 and bool((tensor == tensor.reshape(-1)[0]).all())


def is_finite(values: Iterable[torch.Tensor]) -> bool:
    """Whether no tensor holds NaN or infinity."""
    return all(
        bool(torch.isfinite(each).all())
        for each in values
        if each.is_floating_point() or each.is_complex()
    )
