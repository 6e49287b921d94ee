"""Edge-case inputs: unusual but legal content, large, tiny, zero, and few different values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashinfer_bench.data.distributions import Normal
from flashinfer_bench.tensors.planned import WINDOWED_DTYPES, usual

if TYPE_CHECKING:
    import torch

    from flashinfer_bench.tensors.planned import InputPlan

FAMILIES = ("large", "tiny", "zeros", "repeated")
FAMILIES_WITH_TIES = frozenset({"zeros", "repeated"})

_LARGE, _TINY = 64.0, 2.0**-10  # powers of two, so nothing is rounded
_STEPS_PER_UNIT = 2.0  # of repeated values: multiples of one half


def can_be_edge_case(plan: InputPlan) -> bool:
    """Tell whether an input may have such content: normally distributed floats, new in every call.

    Declared ranges, rows of probabilities, weights and tensors from files stay what they are.
    """
    distribution = usual(plan.tensor.dtype) if plan.distribution is None else plan.distribution
    return (
        plan.source == "window"
        and plan.role == "dynamic"
        and plan.tensor.dtype in WINDOWED_DTYPES
        and isinstance(distribution, Normal)
    )


def make_edge_case(family: str, content: torch.Tensor) -> None:
    """Turn usual content into that of a family, in place."""
    match family:
        case "large":
            content.mul_(_LARGE)
        case "tiny":
            content.mul_(_TINY)
        case "zeros":
            content.zero_()
        case "repeated":
            content.mul_(_STEPS_PER_UNIT).round_().div_(_STEPS_PER_UNIT)
        case _:
            raise ValueError(f"no family named {family!r}; there are {', '.join(FAMILIES)}")
