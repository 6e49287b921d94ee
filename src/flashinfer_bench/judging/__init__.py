"""Is it right? `(got, expected, tolerance) -> Verdict`, one module per way of comparing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from flashinfer_bench.judging import elementwise
from flashinfer_bench.judging.verdict import Tolerance, Verdict

if TYPE_CHECKING:
    import torch

    from flashinfer_bench.data import Definition

__all__ = ["JUDGES", "Judge", "Tolerance", "Verdict", "judge_name"]

Judge = Callable[["torch.Tensor", "torch.Tensor", Tolerance], Verdict]

JUDGES: Mapping[str, Judge] = {"elementwise": elementwise.compare}

_BY_OP_TYPE: Mapping[str, str] = {"sampling": "sampling"}


def judge_name(definition: Definition) -> str:
    """Return the judge a definition declares, by its `judge` key or by its op type.

    The name may be one that `JUDGES` does not hold in this version; such a definition cannot be judged yet.
    """
    return definition.judge or _BY_OP_TYPE.get(definition.op_type, "elementwise")
