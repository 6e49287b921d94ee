"""The model's own numbers: its buffers and constants, and what it computes of them and of its integer inputs.

Weights take no memory meanwhile, and activations are never computed: where integers come from scores, as a router's
do, the scores are drawn and the model's own operations make the integers of them.
"""

from __future__ import annotations

import contextlib
import math
import zlib
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.overrides import TorchFunctionMode

from flashinfer_bench.decompose.classes import key
from flashinfer_bench.decompose.model_file import ModelObject
from flashinfer_bench.decompose.module_tensors import held_tensors
from flashinfer_bench.decompose.names import call, tensors_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from flashinfer_bench.decompose.ir import Op, OpTrace, Value
    from flashinfer_bench.decompose.model_file import ModelSource

_MOST_ELEMENTS = 1 << 24
"""Of a value that is computed; what is larger is drawn."""
_LARGE_DRAW = 1 << 22
"""Elements of a float input above which its numbers are not drawn: only indices and masks are wanted."""


class OwnValues:
    """Numbers of a model by the values of its trace; each is computed when it is asked for."""

    def __init__(self, source: ModelSource, trace: OpTrace) -> None:
        self._source = source
        self._trace = trace
        self._unknown: set[str] = set()

    def of(self, value: str) -> torch.Tensor | None:
        """Give the numbers of a value; none for weights, activations and what cannot be computed."""
        found = self._trace.values[value]
        if found.kind == "param" or value in self._unknown:
            return None
        if value not in self._fixed and (is_float(found.dtype) or found.dtype == "bool"):
            return None
        if found.kind != "inter":
            return self._given.get(value)
        if value not in self._known:
            self._compute(value)
        known = self._known.get(value)  # how much was selected depends on values
        return known if known is not None and self._fits(value, known) else None

    @cached_property
    def _given(self) -> dict[str, torch.Tensor]:
        """Buffers, constants, and the integers and masks among the inputs."""
        kinds = {each.kind for each in self._trace.values.values()}
        found: dict[str, torch.Tensor] = {}
        if kinds & {"buffer", "const"}:
            held = _held(self._source)
            found = {
                each.id: held[each.name]
                for each in self._trace.values.values()
                if each.kind in ("buffer", "const") and each.name in held
            }
        inputs = [self._trace.values[value] for value in self._trace.inputs]
        if not all(is_float(each.dtype) for each in inputs):
            given = zip(inputs, _inputs(self._source), strict=False)
            found |= {value.id: each for value, each in given if not is_float(value.dtype)}
        return {value: each for value, each in found.items() if self._fits(value, each)}

    def _fits(self, value: str, tensor: torch.Tensor) -> bool:
        stated = self._trace.values[value]
        is_same = tuple(tensor.shape) == stated.shape and str(tensor.dtype)[6:] == stated.dtype
        return is_same and tensor.device.type != "meta"

    @cached_property
    def _known(self) -> dict[str, torch.Tensor]:
        return dict(self._given)

    @cached_property
    def _fixed(self) -> frozenset[str]:
        """Values that follow from what is given, without weights and activations."""
        found = set(self._given)
        for op in self._trace.ops:
            if op.is_stochastic or key(op.fn).startswith(("empty", "new_empty")):
                continue
            outs = [self._trace.values[out] for out in op.outs if out in self._trace.values]
            if all(value in found for value in op.ins) and all(map(_is_small, outs)):
                found.update(op.outs)
        return frozenset(found)

    @cached_property
    def _scores(self) -> frozenset[str]:
        """Floats that follow from weights or activations, and not from integers alone."""
        found: set[str] = set()
        for op in self._trace.ops:
            if any(
                value in found or (value not in self._fixed and self._is_float(value))
                for value in op.ins
                if self._trace.maker(value) is None or value in found
            ):
                found.update(out for out in op.outs if self._is_float(out))
        return frozenset(found)

    def _is_float(self, value: str) -> bool:
        stated = self._trace.values.get(value)
        return stated is not None and is_float(stated.dtype)

    def _compute(self, value: str) -> None:
        """Run the operations that a value needs; scores among what they read are drawn."""
        try:
            for op in self._needed(value):
                self._known.update(zip(op.outs, _called(op, self._known), strict=True))
        except Exception:  # noqa: BLE001  # an operation may not run on a CPU, or not on these numbers
            self._unknown.add(value)

    def _needed(self, value: str) -> list[Op]:
        needed: set[int] = set()
        waiting = [value]
        while waiting:
            each = waiting.pop()
            if each in self._known:
                continue
            maker = self._trace.maker(each)
            stated = self._trace.values[each]
            if maker is None or each in self._scores:
                self._known[each] = self._score(stated)
            elif maker not in needed:
                needed.add(maker)
                waiting += self._trace.op(maker).ins
        return [self._trace.op(number) for number in sorted(needed)]

    def _score(self, value: Value) -> torch.Tensor:
        if not (_is_small(value) and is_float(value.dtype)):
            raise ValueError(f"{value.name} is not known")
        generator = torch.Generator().manual_seed(zlib.crc32(value.id.encode()))
        drawn = torch.randn(value.shape, generator=generator)
        maker = self._trace.maker(value.id)
        if maker is not None and key(self._trace.op(maker).fn) == "softmax" and value.shape:
            drawn = drawn.softmax(-1)
        return drawn.to(getattr(torch, value.dtype))


def is_float(dtype: str) -> bool:
    """Tell whether elements have fractions."""
    return dtype.startswith(("float", "bfloat", "complex"))


def _is_small(value: Value) -> bool:
    return math.prod(value.shape) <= _MOST_ELEMENTS


def _called(op: Op, known: Mapping[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """Run an operation; one that counts integers on a GPU alone counts floats here."""
    if key(op.fn) != "histc":
        with torch.no_grad():
            return call(op, known)
    dtypes = {value: known[value].dtype for value in op.ins}
    outs = call(op, {value: known[value].double() for value in op.ins})
    return tuple(each.to(dtype) for each, dtype in zip(outs, dtypes.values(), strict=True))


# -- what the model holds and is given ---------------------------------------------------------------------------


def _held(source: ModelSource) -> dict[str, torch.Tensor]:
    """Give buffers and constants by all their names; those that cannot be made are left out."""
    try:
        model = _built(source)
    except Exception:  # noqa: BLE001  # the model's own code: anything may come
        return {}
    return {
        name: held.tensor.detach().cpu()
        for held in held_tensors(model).values()
        if held.kind != "param" and held.tensor.device.type != "meta"
        for name in (held.name, *held.aliases)
    }


def _built(source: ModelSource) -> nn.Module:
    if isinstance(source, ModelObject):
        return source.module
    try:
        with _weightless():
            return source.build("cpu", 0)
    except Exception:  # noqa: BLE001  # a constructor that looks at its weights
        return source.build("cpu", 0)


@contextlib.contextmanager
def _weightless() -> Iterator[None]:
    """Let every parameter that a module is given have a shape and no memory."""
    handle = register_module_parameter_registration_hook(_without_memory)
    try:
        yield
    finally:
        handle.remove()


def _without_memory(_module: nn.Module, _name: str, parameter: Any) -> Any:
    if not isinstance(parameter, torch.Tensor) or parameter.device.type == "meta":
        return None
    return nn.Parameter(parameter.detach().to("meta"), requires_grad=parameter.requires_grad)


def _inputs(source: ModelSource) -> list[torch.Tensor]:
    try:
        with _SmallDraws():
            given = source.inputs("cpu", 0)
    except Exception:  # noqa: BLE001  # the model's own code: anything may come
        return []
    return list({id(each): each for each in tensors_in(given)}.values())


class _SmallDraws(TorchFunctionMode):
    """Leaves out the numbers of large float inputs, which take time to draw and are not wanted."""

    def __torch_function__(
        self,
        func: Any,
        types: Any,  # torch's signature
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        given = dict(kwargs or {})
        if getattr(func, "__name__", "") in ("rand", "randn"):
            shape = func(*args, **{**given, "device": "meta", "generator": None}).shape
            if shape.numel() > _LARGE_DRAW:
                return torch.zeros((), dtype=given.get("dtype")).expand(shape)
        return func(*args, **given)
