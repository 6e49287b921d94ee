"""What is kept of floats that are not: a few figures, from elements all over a tensor."""

from __future__ import annotations

import torch

from flashinfer_bench.data.workload import InputStatistics

MOST_ELEMENTS = 65_536
"""A cache of gigabytes takes as long as a small tensor."""

_DIGITS = 6


def statistics_of(tensor: torch.Tensor) -> InputStatistics | None:
    """Sum up a tensor of floats, any shape; None where it has no finite element, or is not of floats."""
    if not tensor.is_floating_point() or tensor.numel() == 0:
        return None
    seen = _some(tensor.detach()).double()
    seen = seen[seen.isfinite()]
    if seen.numel() == 0:
        return None
    figures = (seen.mean(), seen.std(correction=0), seen.abs().max(), (seen == 0).double().mean())
    mean, std, largest, zeros = (_short(each) for each in torch.stack(figures).tolist())
    return InputStatistics(mean=mean, std=std, largest=largest, zeros=zeros)


def _some(tensor: torch.Tensor) -> torch.Tensor:
    """Pick elements at equal distances, an odd number: rows of a power of two are not met in one column."""
    if tensor.ndim == 0:
        return tensor.reshape(1)
    step = 1 if tensor.numel() <= MOST_ELEMENTS else tensor.numel() // MOST_ELEMENTS | 1
    at = torch.arange(0, tensor.numel(), step, device=tensor.device)
    where = torch.unravel_index(at, tensor.shape)
    if tensor.element_size() > 1:
        return tensor[where]
    # Floats of eight bits cannot be picked.
    return tensor.view(torch.uint8)[where].view(tensor.dtype)


def _short(figure: float) -> float:
    return float(f"{figure:.{_DIGITS}g}")
