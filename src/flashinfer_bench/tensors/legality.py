"""Does a tensor hold what its distribution promises? Looked at by content, not by how it was made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from flashinfer_bench.data.distributions import (
    Boolean,
    ExpertRouting,
    FloatForm,
    IndexPointers,
    Integers,
    Normal,
    PageTable,
    Permutation,
    Probabilities,
    SequenceLengths,
    Uniform,
)

if TYPE_CHECKING:
    from flashinfer_bench.data.distributions import Distribution

_SUM_TOLERANCE = 1e-4
_ROUNDINGS = 4  # of an element, each of half a unit in the last place


def illegality(distribution: Distribution, content: torch.Tensor) -> str | None:
    """Say what in a tensor contradicts its distribution; `None` when nothing does."""
    match distribution:
        case Normal():
            return None if bool(content.float().isfinite().all()) else "a value is not finite"
        case Uniform(low=low, high=high):
            return _outside(content, low, high)
        case Integers(low=low, high=high):
            return _outside(content, int(low), int(high))
        case Probabilities():
            return _no_probabilities(content)
        case Permutation():
            return _no_permutation(content)
        case IndexPointers():
            return _no_index_pointers(distribution, content)
        case PageTable(pages=pages, unique=unique):
            return _outside(content, 0, int(pages)) or (_repeated(content) if unique else None)
        case ExpertRouting(experts=experts):
            return _outside(content, 0, int(experts)) or _repeated_in_rows(content)
        case SequenceLengths(recorded=recorded):
            return _outside(content, 0, max(recorded) + 1)
        case Boolean():
            return None if content.dtype is torch.bool else f"it is {content.dtype}"
        case FloatForm():
            return None if bool(content.isfinite().all()) else "a value is not finite"


def _outside(content: torch.Tensor, low: float, high: float) -> str | None:
    if not content.numel():
        return None
    wide = content.double() if content.dtype.is_floating_point else content
    smallest, largest = wide.min().item(), wide.max().item()
    if low <= smallest and largest < high:
        return None
    return f"values reach from {smallest:g} to {largest:g}, outside [{low:g}, {high:g})"


def _no_probabilities(content: torch.Tensor) -> str | None:
    if not content.numel():
        return None
    if bool((content < 0).any()):
        return "a probability is negative"
    info = torch.finfo(content.dtype)
    lost = content.shape[-1] * info.smallest_normal * info.eps  # half of it an element, twice
    allowed = _SUM_TOLERANCE + _ROUNDINGS * info.eps + lost
    worst = float((content.double().sum(-1) - 1).abs().max())
    return None if worst <= allowed else f"a row adds up to something {worst:.2g} off one"


def _no_permutation(content: torch.Tensor) -> str | None:
    ordered = content.long().sort(dim=-1).values
    expected = torch.arange(content.shape[-1], device=content.device).expand_as(ordered)
    return None if torch.equal(ordered, expected) else "a row is no permutation"


def _no_index_pointers(distribution: IndexPointers, content: torch.Tensor) -> str | None:
    pointers = content.long()
    if int(pointers[0]) != 0:
        return f"it starts with {int(pointers[0])}, not 0"
    if int(pointers[-1]) != int(distribution.total):
        return f"it ends with {int(pointers[-1])}, not {distribution.total}"
    lengths = pointers.diff()
    if not len(lengths):
        return None
    shortest, longest = int(lengths.min()), int(lengths.max())
    if shortest < int(distribution.shortest):
        return f"a piece has length {shortest}, less than {distribution.shortest}"
    if distribution.longest is not None and longest > int(distribution.longest):
        return f"a piece has length {longest}, more than {distribution.longest}"
    return None


def _repeated(content: torch.Tensor) -> str | None:
    ordered = content.reshape(-1).sort().values
    return "a page stands in it twice" if bool((ordered[1:] == ordered[:-1]).any()) else None


def _repeated_in_rows(content: torch.Tensor) -> str | None:
    ordered = content.sort(dim=-1).values
    is_repeated = bool((ordered[..., 1:] == ordered[..., :-1]).any())
    return "a row holds an expert twice" if is_repeated else None
