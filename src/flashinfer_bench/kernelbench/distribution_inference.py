"""From the tensors that `get_inputs` makes to the distribution they are drawn from, where they are drawn freely.

Inputs that are drawn anew for every call cannot be remembered by a candidate. What has a structure that no distribution
of ours keeps (triangles, labels of ±1, sorted positions) is not fitted, and the caller keeps the tensors themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

_LEAST_ELEMENTS = 64  # fewer say too little about where they come from
_LEAST_IN_ROW = 16
_MOST_ZEROS = 0.005
_LEAST_DIFFERENT = 32  # values of a float tensor: fewer are a code, not a measurement
_LOOKED_AT = 1 << 18
_SAME_SPREAD = 0.1  # of a row's standard deviation to the whole's, beyond what chance does
_UNIFORM_KURTOSIS, _NORMAL_KURTOSIS = 1.8, 3.0
_KURTOSIS_SLACK = 0.25
_UNIFORM_SPREAD = 12**-0.5
_NEAR = 0.05
_OFF_ONE = 1e-2  # of rows of probabilities, as half precision rounds them


def inferred_distribution(draws: Sequence[torch.Tensor]) -> dict[str, Any] | None:
    """Name the distribution that several draws of one input come from; None where it has a structure."""
    if all(torch.equal(draws[0], other) for other in draws[1:]):
        return None
    if draws[0].dtype is torch.bool:
        return _booleans(draws)
    if draws[0].dtype.is_floating_point:
        return _floats(draws)
    return _integers(draws)


def is_scalable(draws: Sequence[torch.Tensor]) -> bool:
    """Tell whether a structured input may be multiplied by a number: floats that are measurements, not a code."""
    if draws[0].dtype not in {torch.float32, torch.float16, torch.bfloat16}:
        return False
    if all(torch.equal(draws[0], other) for other in draws[1:]):
        return False
    return all(torch.unique(_sample(draw)).numel() >= _LEAST_DIFFERENT for draw in draws)


def _booleans(draws: Sequence[torch.Tensor]) -> dict[str, Any] | None:
    if draws[0].numel() < _LEAST_ELEMENTS:
        return None
    rate = sum(float(draw.float().mean()) for draw in draws) / len(draws)
    agree = float((draws[0] == draws[1]).float().mean())
    by_chance = rate**2 + (1 - rate) ** 2
    is_free = abs(agree - by_chance) < _NEAR and not _is_monotonic(draws[0].to(torch.int8))
    return {"type": "boolean", "rate": round(rate, 2)} if is_free else None


def _integers(draws: Sequence[torch.Tensor]) -> dict[str, Any] | None:
    if all(map(_is_permutation, draws)):
        return {"type": "permutation"}
    if any(map(_is_monotonic, draws)):
        return None
    low = min(int(draw.min()) for draw in draws)
    high = max(int(draw.max()) for draw in draws) + 1
    if _has_columns_of_their_own(draws):
        return None
    return {"type": "integers", "low": low, "high": high}


def _floats(draws: Sequence[torch.Tensor]) -> dict[str, Any] | None:
    wide = [draw.detach().double() for draw in draws]
    if wide[0].numel() < _LEAST_ELEMENTS or not all(bool(draw.isfinite().all()) for draw in wide):
        return None
    if all(map(_are_probabilities, wide)):
        return {"type": "probabilities"}
    if any(map(_has_structure, wide)):
        return None
    values = torch.cat([_sample(draw) for draw in wide])
    mean, spread = float(values.mean()), float(values.std())
    kurtosis = float(((values - mean) / spread).pow(4).mean())
    if abs(kurtosis - _NORMAL_KURTOSIS) < _KURTOSIS_SLACK:
        return {"type": "normal", "mean": _plain(mean, spread), "std": _near(spread, 1.0)}
    if abs(kurtosis - _UNIFORM_KURTOSIS) < _KURTOSIS_SLACK:
        return _uniform(float(values.min()), float(values.max()), spread)
    return None


def _uniform(low: float, high: float, spread: float) -> dict[str, Any] | None:
    width = high - low
    if abs(spread - width * _UNIFORM_SPREAD) > _NEAR * width:
        return None
    bounds = [_plain(low, width), _plain(high, width)]
    return {"type": "uniform", "low": bounds[0], "high": bounds[1]}


def _has_structure(draw: torch.Tensor) -> bool:
    """Tell whether there is more to a tensor than independent draws of one kind."""
    if float((draw == 0).double().mean()) > _MOST_ZEROS:
        return True
    if torch.unique(_sample(draw)).numel() < _LEAST_DIFFERENT or _is_monotonic(draw):
        return True
    return _is_symmetric(draw) or _has_rows_of_their_own(draw)


def _has_rows_of_their_own(draw: torch.Tensor) -> bool:
    """Tell whether some slice along some dimension is spread differently from the whole."""
    spread, center = float(draw.std()), float(draw.mean())
    for dimension in range(draw.dim()):
        rows = draw.movedim(dimension, 0).flatten(1) if draw.dim() > 1 else draw[None]
        count = rows.shape[1]
        if count < _LEAST_IN_ROW:
            continue
        by_chance = 6 * spread / count**0.5
        off_spread = (rows.std(dim=1) - spread).abs().max()
        off_center = (rows.mean(dim=1) - center).abs().max()
        if off_spread > _SAME_SPREAD * spread + by_chance or off_center > by_chance:
            return True
    return False


def _has_columns_of_their_own(draws: Sequence[torch.Tensor]) -> bool:
    """Tell whether the columns of integers have ranges of their own, as numbers of several tables have."""
    if draws[0].dim() < 2 or draws[0][..., 0].numel() < _LEAST_ELEMENTS:  # noqa: PLR2004  # rows and columns
        return False
    columns = torch.cat([draw.flatten(0, -2).double() for draw in draws])
    whole = float(columns.std())
    return bool(((columns.std(dim=0) - whole).abs() > 2 * _SAME_SPREAD * whole).any())


def _are_probabilities(draw: torch.Tensor) -> bool:
    if draw.dim() == 0 or bool((draw < 0).any()):
        return False
    return bool(((draw.sum(dim=-1) - 1).abs() < _OFF_ONE).all())


def _is_permutation(draw: torch.Tensor) -> bool:
    if draw.dim() == 0 or draw.shape[-1] <= 2:  # noqa: PLR2004  # two in a row are in order by chance
        return False
    in_order = torch.arange(draw.shape[-1], device=draw.device).expand_as(draw)
    return torch.equal(draw.sort(dim=-1).values.long(), in_order)


def _is_monotonic(draw: torch.Tensor) -> bool:
    if draw.dim() == 0 or draw.shape[-1] <= 8:  # noqa: PLR2004  # few may be in order by chance
        return False
    steps = draw.diff(dim=-1)
    return bool((steps >= 0).all()) or bool((steps <= 0).all())


def _is_symmetric(draw: torch.Tensor) -> bool:
    if draw.dim() < 2 or draw.shape[-1] != draw.shape[-2]:  # noqa: PLR2004  # a matrix
        return False
    return torch.allclose(draw, draw.transpose(-1, -2), rtol=1e-3)


def _sample(draw: torch.Tensor) -> torch.Tensor:
    flat = draw.flatten()
    return flat[:: -(-flat.numel() // _LOOKED_AT)]


def _plain(value: float, unit: float) -> float:
    """Take off what chance added: a whole number where one is near."""
    return float(round(value)) if abs(value - round(value)) < _NEAR * unit else round(value, 4)


def _near(value: float, wanted: float) -> float:
    return wanted if abs(value - wanted) < _NEAR * wanted else round(value, 4)
