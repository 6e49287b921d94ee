"""Tensors a module holds, by qualified name: parameters, buffers, and those that are plain attributes."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn

_DEEP = 4
"""How far tensors are looked for in lists, dicts and objects that a module keeps as attributes."""
_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device)


@dataclass(frozen=True)
class NamedTensor:
    """A tensor and the first of its names."""

    tensor: torch.Tensor
    kind: Literal["param", "buffer", "const"]
    name: str
    aliases: tuple[str, ...] = ()


def held_tensors(module: nn.Module) -> dict[int, NamedTensor]:
    """Find every tensor of a module, each once, by the identity of its object."""
    found: dict[int, NamedTensor] = {}
    for kind, name, tensor in _named(module):
        known = found.get(id(tensor))
        if known is None:
            found[id(tensor)] = NamedTensor(tensor, kind, name)
        elif name != known.name:
            found[id(tensor)] = NamedTensor(tensor, known.kind, known.name, (*known.aliases, name))
    return found


def _named(
    module: nn.Module,
) -> Iterator[tuple[Literal["param", "buffer", "const"], str, torch.Tensor]]:
    for name, parameter in module.named_parameters(remove_duplicate=False):
        yield "param", name, parameter
    for name, buffer in module.named_buffers(remove_duplicate=False):
        yield "buffer", name, buffer
    for path, child in module.named_modules():
        for attribute, value in vars(child).items():
            if not attribute.startswith("_") or isinstance(value, torch.Tensor | list | tuple):
                for name, tensor in tensors_within(value, _joined(path, attribute), _DEEP):
                    yield "const", name, tensor


def tensors_within(value: Any, name: str, depth: int) -> Iterator[tuple[str, torch.Tensor]]:
    """Find tensors in a nested attribute, named as Python would reach them: `masks[2]`, `cache['k']`."""
    if isinstance(value, torch.Tensor):
        yield name, value
    elif depth == 0 or isinstance(value, (*_PLAIN, nn.Module, type)):
        return
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from tensors_within(each, f"{name}[{key!r}]", depth - 1)
    elif isinstance(value, list | tuple):
        for index, each in enumerate(value):
            yield from tensors_within(each, f"{name}[{index}]", depth - 1)
    elif hasattr(value, "__dict__") and not callable(value):
        for key, each in vars(value).items():
            yield from tensors_within(each, f"{name}.{key}", depth - 1)


def copied_to(module: nn.Module, device: str) -> nn.Module:
    """Copy a module tensor by tensor to a device; what was one tensor before is one tensor after."""
    memo: dict[int, Any] = {}
    for identity, held in held_tensors(module).items():
        there = held.tensor.detach().to(device)
        if there.device == held.tensor.device and device != "meta":
            there = there.clone()
        if isinstance(held.tensor, nn.Parameter):
            there = nn.Parameter(there, requires_grad=held.tensor.requires_grad)
        memo[identity] = there
    return copy.deepcopy(module, memo)


def _joined(path: str, attribute: str) -> str:
    return f"{path}.{attribute}" if path else attribute
