"""Records every torch call of a run, at the granularity in which people write them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TYPE_CHECKING

import torch
from torch.overrides import TorchFunctionMode

from flashinfer_bench.decompose.capture.answers import worked_out
from flashinfer_bench.decompose.capture.calls import EMPTY, Call, tidy, writes_in_place
from flashinfer_bench.decompose.capture.encode import encoded, structured
from flashinfer_bench.decompose.capture.faults import NotRecordableError
from flashinfer_bench.decompose.capture.objects import (
    Entry,
    Layout,
    Objects,
    layout_of,
    shares_memory,
)
from flashinfer_bench.decompose.capture.opened import body_of, is_opened
from flashinfer_bench.decompose.capture.recurrent import draws, is_recurrent, shapes_only
from flashinfer_bench.decompose.capture.views import link_of
from flashinfer_bench.decompose.capture.writes import pure_form
from flashinfer_bench.decompose.ir import Dropped, Op, Value
from flashinfer_bench.decompose.names import DROPOUTS, STOCHASTIC, canonical, tensors_in

if TYPE_CHECKING:
    from flashinfer_bench.decompose.capture.scopes import Scopes
    from flashinfer_bench.decompose.held import Held

Watch = Callable[[Op, tuple[torch.Tensor, ...], Mapping[str, torch.Tensor]], None]
"""Called after each operation of a real run with what it made and what it was given."""

_SYNCS = {
    "item", "tolist", "numpy", "__bool__", "__int__", "__float__", "__index__", "__complex__", "__array__",
    "__contains__", "equal", "allclose", "is_nonzero",
}  # fmt: skip
_TRAINING = DROPOUTS | {
    "batch_norm", "instance_norm", "lstm", "gru", "rnn_tanh", "rnn_relu",
    "scaled_dot_product_attention",
}  # fmt: skip
_STATISTICS = ("batch_norm", "instance_norm")


@dataclass(frozen=True)
class Recorded:
    """An operation, and what becomes of it if nobody reads its outputs."""

    op: Op
    writes_state: str = ""
    """Name of the parameter, buffer or input that it wrote into."""
    restates: bool = False
    """Whether it is of our making: it says what aliasing did."""


class Recorder(TorchFunctionMode):
    """A mode under which a model runs; afterwards it holds what was run."""

    def __init__(
        self, scopes: Scopes, device: str, held: Mapping[int, Held], watch: Watch | None
    ) -> None:
        super().__init__()
        self.recorded: list[Recorded] = []
        self.values: dict[str, Value] = {}
        self.dropped: list[Dropped] = []
        self.specialisations: list[str] = []
        self.held_by_value: dict[str, torch.Tensor] = {}
        self._scopes = scopes
        self._device = device
        self._held = held
        self._watch = watch
        self._objects = Objects(emit=self._restate, keep=device == "meta")
        self._numbers: dict[str, int] = {}
        self._twins: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self._before: dict[int, torch.Tensor] = {}

    # what is given

    def given(self, tensor: torch.Tensor, name: str) -> str:
        """Note an input of forward."""
        known = self._objects.find(tensor)
        if known is not None:
            return known.value
        value = self._new_value("input", tensor, name)
        self._objects.add_given(tensor, value)
        return value

    def lookup(self, tensor: torch.Tensor) -> str:
        """Say which value an object holds now."""
        entry = self._objects.find(tensor) or self._objects.twin(tensor)
        if entry is None:
            entry = self._lifted(tensor)
        return self._objects.current(entry)

    def _lifted(self, tensor: torch.Tensor) -> Entry:
        held = self._held.get(id(tensor))
        if held is None or held.tensor is not tensor:
            raise NotRecordableError("a tensor appears that no recorded operation made")
        value = self._new_value(held.kind, tensor, held.name, held.aliases)
        self.held_by_value[value] = tensor
        return self._objects.add_given(tensor, value)

    def _new_value(
        self, kind: Any, tensor: torch.Tensor, name: str, aliases: tuple[str, ...] = ()
    ) -> str:
        letter = {"input": "i", "param": "p", "buffer": "b", "const": "c", "inter": "v"}[kind]
        number = self._numbers[letter] = self._numbers.get(letter, -1) + 1
        value = Value(
            id=f"{letter}{number}",
            shape=tuple(tensor.shape),
            dtype=str(tensor.dtype).removeprefix("torch."),
            kind=kind,
            name=name,
            aliases=aliases,
            strides=None if tensor.is_contiguous() else tuple(tensor.stride()),
        )
        self.values[value.id] = value
        return value.id

    def constants(self) -> dict[str, torch.Tensor]:
        """Tensors that were there before the run and are no parameters, by the value they hold."""
        return {
            value: tensor
            for value, tensor in self.held_by_value.items()
            if self.values[value].kind == "const"
        }

    # what is called

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run a call and record it."""
        fn = canonical(func)
        kwargs = kwargs or {}
        if is_opened(fn):
            with self:
                return body_of(func)(*args, **kwargs)
        if fn in ("torch.Tensor.cuda", "torch.Tensor.cpu"):
            self._drop(fn, "elided", "all runs on one device")
            return args[0]
        if kwargs.get("out") is not None:
            with self:
                return _written_into(func, args, kwargs)
        args, kwargs = self._placed(fn, args, kwargs)
        call = Call(fn or "", tuple(args), dict(kwargs))
        given = list(tensors_in((call.args, call.kwargs)))
        versions = [each._version for each in given]  # what a write moves
        layout = layout_of(given[0]) if given and call.last.endswith("_") else None
        if self._watch is not None and writes_in_place(call):
            self._copy_before(given)
        result = self._ran(func, call)
        changed = [
            each for each, version in zip(given, versions, strict=True) if each._version != version
        ]
        if call.fn in EMPTY:
            for each in tensors_in(result):
                each.zero_()
        try:
            self._note(call, given, _each_once(changed), layout, result)
        except NotRecordableError:
            raise
        except Exception as fault:
            raise NotRecordableError(f"{call.fn or func}: {fault}") from fault
        self._before.clear()
        return result

    def _ran(self, func: Any, call: Call) -> Any:
        """Run a call, on meta without unrolling, and with numbers where a number is asked for."""
        if self._device == "meta" and is_recurrent(call.fn):
            result = shapes_only(call.fn, call.args)
            if result is not None:
                return result
        if self._device == "meta" and call.last in _SYNCS:
            return func(*(self._with_numbers(each) for each in call.args), **call.kwargs)
        return func(*call.args, **call.kwargs)

    def _with_numbers(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        ops = (each.op for each in self.recorded)
        sizes = {key: math.prod(each.shape) for key, each in self.values.items()}
        known = worked_out(self.lookup(value), ops, sizes)
        return value if known is None else known

    def _placed(self, fn: str | None, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Keep everything on the device of the run, whatever the model asks for."""
        if kwargs.get("device") is not None:
            kwargs = {**kwargs, "device": self._device}
        if fn == "torch.Tensor.to":
            args = tuple(self._device if _is_device(each) else each for each in args)
        if self._device == "meta":
            args, kwargs = self._moved(args), {k: self._moved(v) for k, v in kwargs.items()}
        return args, kwargs

    def _moved(self, value: Any) -> Any:
        """Put a tensor that lies elsewhere on meta: one that was made when the file was imported."""
        if isinstance(value, torch.Tensor):
            if value.device.type == "meta":
                return value
            if id(value) not in self._twins:
                twin = value.to("meta")
                self._twins[id(value)] = value, twin
                held = self._held.get(id(value))
                if held is None:
                    raise NotRecordableError("a tensor with values appears in a run without values")
                self._objects.add_given(twin, self._new_value(held.kind, twin, held.name))
            return self._twins[id(value)][1]
        if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
            return type(value)(self._moved(each) for each in value)
        return value

    # what is noted

    def _note(
        self,
        call: Call,
        given: list[torch.Tensor],
        changed: list[torch.Tensor],
        layout: Layout | None,
        result: Any,
    ) -> None:
        outs = _each_once(list(tensors_in(result)))
        if call.last in _SYNCS:
            self._specialise(call, result)
        if not outs and not changed:
            return
        if call.last in _STATISTICS:
            changed = self._side_effects(call, changed)
        if changed:
            self._note_write(call, given, changed, layout)
        elif all(any(out is each for each in given) for out in outs):
            self._drop(call.fn, "elided", "it returned what it was given")
        else:
            self._note_pure(tidy(call, result), given, outs, result)

    def _note_pure(
        self, call: Call, given: list[torch.Tensor], outs: list[torch.Tensor], result: Any
    ) -> None:
        args, kwargs = self._encoded(call)
        values = tuple(self._new_value("inter", each, call.last) for each in outs)
        single = isinstance(result, torch.Tensor)
        structure = None if single else structured(result, lambda out: _place(outs, out))
        op = self._op(call, args, kwargs, values, structure)
        for number, (out, value) in enumerate(zip(outs, values, strict=True)):
            if any(out is each for each in given):
                continue
            base = next((each for each in given if shares_memory(each, out)), None)
            link = None
            if base is not None:
                entry = self._objects.find(base) or self._objects.twin(base)
                assert entry is not None
                link = link_of(call, op, entry, base, outs, number)
            self._objects.add(out, value, link=link)
        self._append(Recorded(op), outs, given)

    def _note_write(
        self,
        call: Call,
        given: list[torch.Tensor],
        changed: list[torch.Tensor],
        layout: Layout | None,
    ) -> None:
        target = changed[0]
        if len(changed) > 1:  # views of one memory count writes together
            target = next((each for each in changed if each is call.args[0]), target)
            if not all(shares_memory(each, target) for each in changed):
                raise NotRecordableError(f"{call.fn} writes into several tensors")
        before = layout if layout is not None and given[0] is target else layout_of(target)
        if self._note_copy(call, target):
            return
        pure = tidy(pure_form(tidy(call, target), target, before), target)
        args, kwargs = self._encoded(pure)
        entry = self._objects.find(target) or self._objects.twin(target) or self._lifted(target)
        value = self._new_value("inter", target, pure.last)
        op = self._op(pure, args, kwargs, (value,), None)
        state = next((each for each in self._objects.chain(entry) if each.is_state), None)
        name = self.values[state.first].name if state else ""
        entry.layout = layout_of(target)
        self._append(Recorded(op, writes_state=name), [target], given)
        self._objects.write(entry, value)

    def _note_copy(self, call: Call, target: torch.Tensor) -> bool:
        """A copy over a whole tensor of the same kind makes two names of one value, and no operation."""
        source = call.argument(1, "src")
        if call.last != "copy_" or not isinstance(source, torch.Tensor):
            return False
        if (source.dtype, source.shape, source.stride()) != (
            target.dtype,
            target.shape,
            target.stride(),
        ):
            return False
        entry = self._objects.find(target) or self._objects.twin(target) or self._lifted(target)
        if not any(each.is_state for each in self._objects.chain(entry)):
            self._objects.write(entry, self.lookup(source))
            self._drop(call.fn, "elided", "copied over a whole tensor")
            return True
        return False

    def _encoded(self, call: Call) -> tuple[tuple[Any, ...], dict[str, Any]]:
        args = tuple(encoded(each, self.lookup) for each in call.args)
        return args, {key: encoded(each, self.lookup) for key, each in call.kwargs.items()}

    def _op(
        self,
        call: Call,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        outs: tuple[str, ...],
        structure: Any,
    ) -> Op:
        if not call.fn:
            raise NotRecordableError("a function is called that has no public name")
        scope, source = self._scopes.here()
        return Op(
            id=len(self.recorded),
            fn=call.fn,
            args=args,
            kwargs=kwargs,
            outs=outs,
            scope=scope,
            source=source,
            structure=structure,
            autocast=self._autocast(),
            is_stochastic=_draws(call),
            is_train=self._scopes.training if call.last in _TRAINING else None,
        )

    def _autocast(self) -> tuple[str, str] | None:
        for device in ("cpu", "cuda"):
            if torch.is_autocast_enabled(device):
                if self._device == "meta":
                    raise NotRecordableError("autocast chooses dtypes by device")
                return device, str(torch.get_autocast_dtype(device)).removeprefix("torch.")
        return None

    def _restate(
        self, fn: str, args: tuple[Any, ...], kwargs: dict[str, Any], holder: Entry
    ) -> str:
        """Record what aliasing did: a base that was written through a view, or a view of it."""
        shape, strides, offset = holder.layout
        tensor = holder.ref()
        made = torch.empty_strided(shape, strides, dtype=holder.dtype, device="meta")
        value = self._new_value("inter", made, fn.rpartition(".")[2])
        op = self._op(Call(fn, ()), args, kwargs, (value,), None)
        self.recorded.append(Recorded(op, restates=True))
        del tensor, offset
        return value

    def _append(
        self, recorded: Recorded, outs: list[torch.Tensor], given: list[torch.Tensor]
    ) -> None:
        self.recorded.append(recorded)
        if self._watch is None:
            return
        ins = {}
        for each in given:
            entry = self._objects.find(each) or self._objects.twin(each)
            if entry is not None:
                ins[entry.value] = self._before.get(id(each), each)
        self._watch(recorded.op, tuple(outs), {k: ins[k] for k in recorded.op.ins if k in ins})

    def _copy_before(self, given: list[torch.Tensor]) -> None:
        for each in given:
            self._before[id(each)] = each.clone()

    def _side_effects(self, call: Call, changed: list[torch.Tensor]) -> list[torch.Tensor]:
        """Running statistics are written beside what is computed; nobody reads them in training."""
        statistics = {id(call.argument(1, "running_mean")), id(call.argument(2, "running_var"))}
        own = [each for each in changed if id(each) in statistics]
        if own:
            self._drop(call.fn, "side_effect", "updates running statistics")
        return [each for each in changed if id(each) not in statistics]

    def _specialise(self, call: Call, result: Any) -> None:
        _, source = self._scopes.here()
        answer = repr(result)
        answer = answer if len(answer) <= _SHORT else answer[:_SHORT] + "…"
        self.specialisations.append(f"{source}: {call.last}() gave {answer}")

    def _drop(self, fn: str, reason: Any, detail: str) -> None:
        scope, _ = self._scopes.here()
        self.dropped.append(Dropped(fn=fn, scope=scope, reason=reason, detail=detail))


def _written_into(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Do what `out=` asks for in two steps: compute, then copy."""
    out = kwargs["out"]
    result = func(*args, **{key: each for key, each in kwargs.items() if key != "out"})
    for there, made in zip(tensors_in(out), tensors_in(result), strict=True):
        if there.shape != made.shape:
            there.resize_(made.shape)
        there.copy_(made)
    return out


_SHORT = 60


def _draws(call: Call) -> bool:
    if call.last in STOCHASTIC or call.last in DROPOUTS:
        return True
    if call.last == "scaled_dot_product_attention":
        return bool(call.argument(4, "dropout_p", 0.0))
    return is_recurrent(call.fn) and draws(call.args)


def _is_device(value: Any) -> bool:
    return isinstance(value, torch.device | str)


def _each_once(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    return list({id(each): each for each in tensors}.values())


def _place(outs: list[torch.Tensor], out: torch.Tensor) -> int:
    return next(number for number, each in enumerate(outs) if each is out)
