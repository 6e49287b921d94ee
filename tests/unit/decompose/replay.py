"""Replays a trace with values and compares with what the model itself computes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from flashinfer_bench.decompose.capture import Captured, as_written, capture
from flashinfer_bench.decompose.model_file import ModelObject, ModelSource
from flashinfer_bench.decompose.module_tensors import held_tensors
from flashinfer_bench.decompose.names import call, tensors_in

Forward = Callable[..., Any]


class Written(nn.Module):
    """A module whose forward is a function; it holds a little of everything."""

    def __init__(self, forward: Forward) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(8, 8)
        self.register_buffer("buffer", torch.zeros(4, 8))
        self.constant = torch.linspace(0, 1, 8)
        self.constants = [torch.ones(8), {"key": torch.full((8,), 2.0)}]
        self.written = forward

    def forward(self, *inputs: Any) -> Any:
        return self.written(self, *inputs)


def source_of(forward: Forward | nn.Module, *inputs: Any) -> ModelObject:
    module = forward if isinstance(forward, nn.Module) else Written(forward)
    return ModelObject(module, list(inputs), "example")


def traced(forward: Forward | nn.Module, *inputs: Any) -> Captured:
    return capture(source_of(forward, *inputs))


def fns(captured: Captured) -> list[str]:
    return [op.fn.removeprefix("torch.") for op in captured.trace.ops]


@dataclass(frozen=True)
class Both:
    """What replaying a trace gives, and what the model gives."""

    replayed: list[torch.Tensor]
    original: list[torch.Tensor]

    @property
    def are_equal(self) -> bool:
        """To the bit, shape and dtype, where NaN equals NaN."""
        return len(self.replayed) == len(self.original) and all(
            a.dtype == b.dtype and torch.equal(torch.nan_to_num(a), torch.nan_to_num(b))
            for a, b in zip(self.replayed, self.original, strict=True)
        )


def replay(source: ModelSource, captured: Captured, seed: int = 1) -> Both:
    """Evaluate a trace operation by operation on the CPU, and run the model itself."""
    trace = captured.trace
    model, inputs = source.build("cpu", 0), source.inputs("cpu", 0)
    held = {name: each.tensor for each in held_tensors(model).values() for name in _names(each)}
    given = list({id(each): each.clone() for each in tensors_in(inputs)}.values())
    env = dict(zip(trace.inputs, given, strict=True))
    for value in trace.values.values():
        if value.kind in ("param", "buffer", "const"):
            env[value.id] = held[value.name].detach().clone()
    with torch.no_grad(), as_written():
        torch.manual_seed(seed)
        original = list({id(each): each for each in tensors_in(model(*inputs))}.values())
        torch.manual_seed(seed)
        for op in trace.ops:
            env.update(zip(op.outs, call(op, env), strict=True))
    return Both([env[value] for value in trace.outputs], original)


def _names(held: Any) -> tuple[str, ...]:
    return (held.name, *held.aliases)
