"""Put each child's own file in the place of the copy that its parent holds, and see every call."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from flashinfer_bench.decompose.verify.files import NodeFile, tensors
from flashinfer_bench.decompose.verify.rules import found

if TYPE_CHECKING:
    from flashinfer_bench.decompose.verify.findings import Violation

Outs = tuple[torch.Tensor, ...]
OnCall = Callable[["Child", tuple[Any, ...]], Any]


class Child(nn.Module):
    """Stands where a parent holds a child."""

    def __init__(self, file: NodeFile, copy: nn.Module, on_call: OnCall) -> None:
        super().__init__()
        self.file = file
        self._held = (copy, on_call)  # in a tuple, so that it is no submodule

    @property
    def copy(self) -> nn.Module:
        """The parent's own copy of the child."""
        return self._held[0]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the child with its inputs in the order of its file."""
        signature = inspect.signature(self.file.module.Model.forward)
        bound = signature.bind(None, *args, **kwargs)
        bound.apply_defaults()
        return self._held[1](self, tuple(bound.arguments.values())[1:])


def with_children(
    parent: NodeFile, model: nn.Module, files: Mapping[str, NodeFile], on_call: OnCall
) -> nn.Module:
    """Replace what a fresh parent holds by its children's own files."""
    for name, copy in list(model.named_children()):
        if name in parent.node.children and name in files:
            setattr(model, name, Child(files[name], copy, on_call))
    return model


def foreign_children(parent: NodeFile, model: nn.Module, label: str) -> Iterator[Violation]:
    """Find modules in a parent that are no children of its node."""
    node = parent.node
    for name, held in model.named_children():
        if name not in node.children:
            said = (
                f"{node.id} holds {name!r}, a {type(held).__name__}, which is none of its children"
            )
            yield found("GRAPH-child", label, said, node=node.id)
    for name in dict.fromkeys(node.children):
        if not isinstance(getattr(model, name, None), nn.Module):
            said = f"{node.id} has no attribute called like its child {name}"
            yield found("GRAPH-child", label, said, node=node.id)


def outputs_of(value: Any) -> Outs:
    """Give a node's outputs in order."""
    return tensors(value)
