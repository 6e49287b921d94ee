"""How many tokens each expert of a mixture gets: as in the model's run, all alike, and as uneven as can be.

At the worst every expert still gets a token, so that a kernel that leaves one out is wrong there too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch

from flashinfer_bench.data.distributions import ExpertRouting
from flashinfer_bench.decompose.classes import TABLE, argument, key
from flashinfer_bench.decompose.ir import Ref

if TYPE_CHECKING:
    from collections.abc import Iterable

    from flashinfer_bench.decompose.ir import Op, OpTrace

Load = Literal["recorded", "balanced", "worst"]
OTHER_LOADS: tuple[Load, ...] = ("balanced", "worst")
_GROUPED = frozenset({"_grouped_mm", "grouped_mm"})
_MOST_EXPERTS = 1024
"""More choices than that are words or pixels."""
_DIGITS = 6


def experts_of(trace: OpTrace, value: str) -> int | None:
    """Count the experts among which a router chose these integers; none where it chose none of them."""
    maker = trace.maker(value)
    while maker is not None:
        op = trace.op(maker)
        if key(op.fn) == "topk":
            count = trace.values[op.ins[0]].shape[-1]
            is_choice = len(op.outs) > 1 and value == op.outs[1]
            return count if is_choice and count <= _MOST_EXPERTS else None
        if TABLE.get(key(op.fn)) != "CAST" or not op.ins:
            return None
        value = op.ins[0]
        maker = trace.maker(value)
    return None


def routing(numbers: torch.Tensor, experts: int, load: Load = "recorded") -> ExpertRouting | None:
    """Describe rows of experts; none where a row holds one twice."""
    if numbers.dim() < 1 or not numbers.numel():
        return None
    ordered = numbers.sort(-1).values
    if bool((ordered[..., 1:] == ordered[..., :-1]).any()):
        return None
    if load == "balanced":
        return ExpertRouting(experts=experts)
    row = numbers.shape[-1]
    if load == "worst":
        few = min(1 / numbers.numel(), 1 / experts)
        most = (1 - (experts - row) * few) / row
        shares = [most if expert < row else few for expert in range(experts)]
    else:
        counted = torch.bincount(numbers.reshape(-1).long(), minlength=experts)
        shares = (counted.double() / numbers.numel()).tolist()
    return ExpertRouting(experts=experts, load=[round(share, _DIGITS) for share in shares])


def ends_of_groups(ops: Iterable[Op]) -> frozenset[str]:
    """Find the values that say where each expert's rows end."""
    given = (argument(op, 2, "offs") for op in ops if key(op.fn) in _GROUPED)
    return frozenset(each.id for each in given if isinstance(each, Ref))


def other_ends(numbers: torch.Tensor, load: Load) -> torch.Tensor:
    """Divide as many rows otherwise: evenly, or all but one for each other expert to the first."""
    rows, experts = int(numbers[-1]), len(numbers)
    if load == "worst":
        return (torch.arange(rows - experts + 1, rows + 1)).clamp_(min=0).to(numbers.dtype)
    return (torch.arange(1, experts + 1) * rows // experts).to(numbers.dtype)
