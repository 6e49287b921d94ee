"""What is kept of floats that are not: a few figures, from elements all over a tensor."""

from __future__ import annotations

import torch

from flashinfer_bench.data.workload import InputStatistics

MOST_ELEMENTS = 65_536
"""A cache of gigabytes takes as long as a small tensor."""

_DIGITS = 6


def elements_of(tensor: torch.Tensor) -> torch.Tensor | None:
    """Copy elements of a tensor of floats, any shape, to one dimension on the CPU; None where there are none.

    Elements lie at equal distances, an odd number: rows of a power of two are not met in one column.
    """
    if not tensor.is_floating_point() or tensor.numel() == 0:
        return None
    held = tensor.detach()
    if held.element_size() == 1:  # floats of eight bits cannot be picked
        return _picked(held.view(torch.uint8)).cpu().view(held.dtype)
    return _picked(held).cpu()


def statistics_of(tensor: torch.Tensor) -> InputStatistics | None:
    """Sum up elements; None where none is finite."""
    seen = tensor.double()
    seen = seen[seen.isfinite()]
    if seen.numel() == 0:
        return None
    figures = (seen.mean(), seen.std(correction=0), seen.abs().max(), (seen == 0).double().mean())
    mean, std, largest, zeros = (_short(each) for each in torch.stack(figures).tolist())
    return InputStatistics(mean=mean, std=std, largest=largest, zeros=zeros)


def _picked(tensor: torch.Tensor) -> torch.Tensor:
    step = 1 if tensor.numel() <= MOST_ELEMENTS else tensor.numel() // MOST_ELEMENTS | 1
    if step == 1 or tensor.is_contiguous():
        return tensor.reshape(-1)[::step].clone()
    at = torch.arange(0, tensor.numel(), step, device=tensor.device)
    return tensor[torch.unravel_index(at, tensor.shape)]


def _short(figure: float) -> float:
    return float(f"{figure:.{_DIGITS}g}")
