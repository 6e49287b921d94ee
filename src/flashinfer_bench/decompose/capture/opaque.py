"""A whole model as one operation: the last resort, which is always true."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from flashinfer_bench.decompose.capture.encode import structured
from flashinfer_bench.decompose.capture.values import Values, place_in
from flashinfer_bench.decompose.held import held_tensors
from flashinfer_bench.decompose.ir import Op, OpTrace, Ref, Scope
from flashinfer_bench.decompose.names import tensors_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import nn

OPAQUE = "opaque"
"""Name of the operation that is a whole model."""


def opaque_trace(
    name: str, model: nn.Module, inputs: list[Any], names: Mapping[int, str], result: Any
) -> OpTrace:
    """Describe a run as one operation from inputs and weights to outputs."""
    values = Values()
    given = list({id(each): each for each in tensors_in(inputs)}.values())
    ins = tuple(values.add("input", each, names[id(each)]) for each in given)
    weights = tuple(
        values.add(each.kind, each.tensor, each.name, each.aliases)
        for each in held_tensors(model).values()
    )
    made = list({id(each): each for each in tensors_in(result)}.values())
    outs = tuple(values.add("inter", each, OPAQUE) for each in made)
    structure = structured(result, lambda each: place_in(made, each))
    op = Op(
        id=0,
        fn=OPAQUE,
        args=tuple(Ref(each) for each in (*ins, *weights)),
        kwargs={},
        outs=outs,
        scope=(Scope("module", "", type(model).__name__, 0),),
        structure=None if isinstance(result, torch.Tensor) else structure,
    )
    return OpTrace(
        model=name,
        values=values,
        ops=(op,),
        inputs=ins,
        input_structure=structured(inputs, lambda each: place_in(given, each)),
        outputs=outs,
        output_structure=structure,
        front_end="opaque",
    )
