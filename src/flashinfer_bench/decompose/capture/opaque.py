"""A whole model as one operation: the last resort, which is always true."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from flashinfer_bench.decompose.capture.encode import structured
from flashinfer_bench.decompose.held import held_tensors
from flashinfer_bench.decompose.ir import Op, Ref, Scope, Trace, Value
from flashinfer_bench.decompose.names import tensors_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import nn

    from flashinfer_bench.decompose.ir import Kind

OPAQUE = "opaque"
"""Name of the operation that is a whole model."""


def opaque_trace(
    name: str, model: nn.Module, inputs: list[Any], names: Mapping[int, str], result: Any
) -> Trace:
    """Describe a run as one operation from inputs and weights to outputs."""
    values: dict[str, Value] = {}

    def new(kind: Kind, tensor: torch.Tensor, title: str, aliases: tuple[str, ...] = ()) -> str:
        letter = "v" if kind == "inter" else kind[0]
        number = sum(each.startswith(letter) for each in values)
        dtype = str(tensor.dtype).removeprefix("torch.")
        key = f"{letter}{number}"
        values[key] = Value(key, tuple(tensor.shape), dtype, kind, title, aliases)
        return key

    given = list({id(each): each for each in tensors_in(inputs)}.values())
    ins = tuple(new("input", each, names[id(each)]) for each in given)
    weights = tuple(
        new(each.kind, each.tensor, each.name, each.aliases)
        for each in held_tensors(model).values()
    )
    made = list({id(each): each for each in tensors_in(result)}.values())
    outs = tuple(new("inter", each, OPAQUE) for each in made)
    structure = structured(result, lambda each: _place(made, each))
    op = Op(
        id=0,
        fn=OPAQUE,
        args=tuple(Ref(each) for each in (*ins, *weights)),
        kwargs={},
        outs=outs,
        scope=(Scope("module", "", type(model).__name__, 0),),
        structure=None if isinstance(result, torch.Tensor) else structure,
    )
    return Trace(
        model=name,
        values=values,
        ops=(op,),
        inputs=ins,
        input_structure=structured(inputs, lambda each: _place(given, each)),
        outputs=outs,
        output_structure=structure,
        front_end="opaque",
    )


def _place(tensors: list[torch.Tensor], tensor: torch.Tensor) -> int:
    return next(number for number, each in enumerate(tensors) if each is tensor)
