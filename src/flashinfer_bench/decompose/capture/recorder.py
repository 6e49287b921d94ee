"""Sees every torch call of a run, at the granularity in which people write them."""

from __future__ import annotations

import functools
import math
from types import FunctionType
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode

from flashinfer_bench.decompose.capture.calls import EMPTY, NamedCall, writes_in_place
from flashinfer_bench.decompose.capture.objects import layout_of
from flashinfer_bench.decompose.capture.recurrent import is_recurrent, shapes_only
from flashinfer_bench.decompose.capture.tape import Happened
from flashinfer_bench.decompose.model_errors import HiddenStateError, NotRecordableError
from flashinfer_bench.decompose.names import call, canonical, tensors_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from flashinfer_bench.decompose.capture.tape import Tape
    from flashinfer_bench.decompose.ir import Op


_SYNCS = {
    "item", "tolist", "numpy", "__bool__", "__int__", "__float__", "__index__", "__complex__", "__array__",
    "__contains__", "equal", "allclose", "is_nonzero",
}  # fmt: skip
"""Calls that ask for numbers: what a model does with them is not seen."""
_SELECTING = {
    "nonzero", "argwhere", "masked_select", "unique", "unique_consecutive", "bincount", "repeat_interleave",
}  # fmt: skip
"""Calls whose results are as long as values say."""
_REBINDING = {
    "torch.Tensor.set_", "torch.Tensor.data.__set__", "torch.Tensor.real.__set__", "torch.Tensor.imag.__set__",
}  # fmt: skip
_BOUNDED = {"torch.Tensor.__getitem__", "torch.Tensor.__setitem__"}
_SIZED = {
    "torch.reshape", "torch.Tensor.view", "torch.Tensor.expand", "torch.Tensor.repeat", "torch.broadcast_to",
    "torch.tile",
}  # fmt: skip
"""Calls that are given sizes, which may be tensors."""
CALLING = ("_ran", "_asked", "_written_into")
"""Methods that call what the model calls: what is raised there is the model's."""
_SHORT = 60


class Recorder(TorchFunctionMode):
    """A mode under which a model runs; what it calls goes into the tape."""

    def __init__(self, tape: Tape, device: str, *, keep_before: bool) -> None:
        super().__init__()
        self._tape = tape
        self._device = device
        self._keep_before = keep_before
        self._twins: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Run a call and note it."""
        fn, kwargs = canonical(func), kwargs or {}
        if _is_opened(fn):
            with self:
                return _body_of(func)(*args, **kwargs)
        if kwargs.get("out") is not None:
            return self._written_into(func, args, kwargs)
        if fn in ("torch.Tensor.cuda", "torch.Tensor.cpu"):
            self._tape.drop(fn, "elided", "all runs on one device")
            return args[0]
        if fn in _REBINDING:
            if args[0] is args[1]:  # as `Module.to` does where nothing moves
                return func(*args, **kwargs)
            raise HiddenStateError(f"{fn} gives a tensor another's memory")
        if kwargs.get("generator") is not None:
            raise HiddenStateError(f"{fn} draws from a generator of the model's own")
        args, kwargs = self._placed(fn, args, kwargs)
        if fn in _BOUNDED:
            args = (args[0], self._numbered(args[1]), *args[2:])
        if fn in _SIZED:
            args = (args[0], *(self._sized(each) for each in args[1:]))
        return self._seen(func, NamedCall(fn or "", tuple(args), kwargs))

    def _seen(self, func: Callable[..., Any], call: NamedCall) -> Any:
        given = list(tensors_in((call.args, call.kwargs)))
        versions = [_version(each) for each in given]
        layout = layout_of(given[0]) if given and call.last.endswith("_") else None
        before = {}
        if self._keep_before and writes_in_place(call):
            before = {id(each): each.clone() for each in given}
        result = self._ran(func, call)
        changed = [
            each for each, version in zip(given, versions, strict=True) if _version(each) != version
        ]
        if given and given[0].is_inference() and writes_in_place(call):
            changed = given[:1]
        outs = _each_once(tensors_in(result))
        if outs and _selects(call):
            self._tape.specialise(
                f"how much {call.last}() selects depends on values: {outs[0].shape[0]} in this run"
            )
        if not outs and not changed:
            return result
        try:
            self._tape.note(
                Happened(call, given, outs, result, _each_once(changed), layout, before)
            )
        except NotRecordableError:
            raise
        except Exception as fault:
            raise NotRecordableError(f"{call.fn or func}: {fault}") from fault
        return result

    def _ran(self, func: Callable[..., Any], call: NamedCall) -> Any:
        """Run a call, on meta without unrolling, and with numbers where a number is asked for."""
        if self._device == "meta" and is_recurrent(call.fn):
            result = shapes_only(call.fn, call.args)
            if result is not None:
                return result
        if call.last in _SYNCS:
            return self._asked(func, call)
        result = func(*call.args, **call.kwargs)
        if call.fn in EMPTY:
            result.zero_()
        if call.last == "contiguous" and result is call.args[0] and not self._tape.is_held(result):
            return result.view(
                result.shape
            )  # an operation on every device, whatever the layout here
        return result

    def _written_into(
        self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Do what `out=` asks for in two steps: compute, then copy."""
        out = kwargs["out"]
        with self:
            result = func(*args, **{key: each for key, each in kwargs.items() if key != "out"})
        for there, made in zip(tensors_in(out), tensors_in(result), strict=True):
            if there.shape != made.shape:
                there.resize_(made.shape)
            with self:
                there.copy_(made)
        return out

    def _asked(self, func: Callable[..., Any], call: NamedCall) -> Any:
        """Give an answer; where it may be another in another run, the trace holds for this one only."""
        asked = {id(each): self._tape.lookup(each) for each in tensors_in(call.args)}
        ops = [each.op for each in self._tape.recorded]
        sizes = {key: math.prod(each.shape) for key, each in self._tape.values.items()}
        grounds = {value: _settled(value, ops, sizes) for value in asked.values()}

        def known(value: Any) -> Any:
            found = grounds.get(asked.get(id(value), ""))
            on_meta = self._device == "meta"
            return _worked_out(asked[id(value)], found) if found is not None and on_meta else value

        answer = func(*(known(each) for each in call.args), **call.kwargs)
        if None in grounds.values():
            said = repr(answer)
            said = said if len(said) <= _SHORT else said[:_SHORT] + "…"
            self._tape.specialise(f"{call.last}() gave {said}")
        return answer

    def _numbered(self, given: Any) -> Any:
        """Ask for the numbers that tensors give as bounds of slices; indices stay tensors."""
        match given:
            case slice():
                parts = (given.start, given.stop, given.step)
                return slice(*(self._number(each) for each in parts))
            case tuple() if any(isinstance(each, slice) for each in given):
                return tuple(
                    self._numbered(each) if isinstance(each, slice) else each for each in given
                )
            case _:
                return given

    def _sized(self, given: Any) -> Any:
        """Ask for the numbers that tensors give as sizes."""
        if isinstance(given, tuple | list) and any(
            isinstance(each, torch.Tensor) for each in given
        ):
            return tuple(self._number(each) for each in given)
        return self._number(given)

    def _number(self, given: Any) -> Any:
        if not isinstance(given, torch.Tensor):
            return given
        given = self._moved(given) if self._device == "meta" else given
        return self._asked(torch.Tensor.__index__, NamedCall("torch.Tensor.__index__", (given,)))

    def _placed(
        self, fn: str | None, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Keep everything on the device of the run, whatever the model asks for."""
        if kwargs.get("device") is not None:
            kwargs = {**kwargs, "device": self._device}
        if fn == "torch.Tensor.to":
            args = tuple(
                self._device if isinstance(each, torch.device | str) else each for each in args
            )
        if self._device == "meta":
            return self._moved(args), {key: self._moved(each) for key, each in kwargs.items()}
        return args, kwargs

    def _moved(self, value: Any) -> Any:
        """Put a tensor that lies elsewhere on meta: one that was made when the file was imported."""
        if isinstance(value, torch.Tensor) and value.device.type != "meta":
            if id(value) not in self._twins:
                twin = value.to("meta")
                self._tape.lift(twin, stands_for=value)
                self._twins[id(value)] = value, twin
            return self._twins[id(value)][1]
        if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
            return type(value)(self._moved(each) for each in value)
        return value


def _selects(call: NamedCall) -> bool:
    if call.last == "where":
        return len(call.args) == 1
    if call.last == "__getitem__":
        return any(each.dtype == torch.bool for each in tensors_in(call.args[1:]))
    if call.last == "repeat_interleave":
        return any(True for _ in tensors_in((call.args[1:], call.kwargs)))
    return call.last in _SELECTING


def _version(tensor: torch.Tensor) -> int:
    """Count the writes to a tensor; in inference mode nobody does."""
    return 0 if tensor.is_inference() else tensor._version


def _each_once(tensors: Any) -> list[torch.Tensor]:
    return list({id(each): each for each in tensors}.values())


_BIG = 1 << 24
"""Elements: what is larger is not worked out on the way."""


def _settled(value: str, ops: Iterable[Op], sizes: Mapping[str, int]) -> list[Op] | None:
    """Find the operations that a value follows from; none if inputs, weights or chance have a say."""
    makers = {out: op for op in ops for out in op.outs}
    needed: dict[int, Op] = {}
    open_ends = [value]
    while open_ends:
        op = makers.get(open_ends.pop())
        if op is None or op.is_stochastic or any(sizes[out] > _BIG for out in op.outs):
            return None
        if op.id not in needed:
            needed[op.id] = op
            open_ends += op.ins
    return [needed[number] for number in sorted(needed)]


def _worked_out(value: str, ops: Iterable[Op]) -> torch.Tensor:
    """Compute a value from the operations it follows from."""
    env: dict[str, torch.Tensor] = {}
    with torch.device("cpu"):
        for op in ops:
            env.update(zip(op.outs, call(op, env), strict=True))
    return env[value]


_OPENED = {"torch.nn.functional.multi_head_attention_forward"}


def _is_opened(fn: str | None) -> bool:
    """Tell whether a function is recorded by what it calls."""
    return fn in _OPENED


@functools.cache
def _body_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function that does what one of torch's does, without asking modes whether they want the call."""
    assert isinstance(function, FunctionType)
    names = {**function.__globals__, "has_torch_function": lambda _: False}
    body = FunctionType(function.__code__, names, function.__name__, function.__defaults__)
    body.__kwdefaults__ = function.__kwdefaults__
    return body
