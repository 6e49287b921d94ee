"""What is written down of a run: values, operations, and what became of those that are left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from flashinfer_bench.decompose.capture.calls import NamedCall, tidy
from flashinfer_bench.decompose.capture.encode import Values, encoded, place_in, structured
from flashinfer_bench.decompose.capture.objects import (
    Objects,
    TensorObject,
    ViewLink,
    layout_of,
    shares_memory,
)
from flashinfer_bench.decompose.capture.recurrent import draws, is_recurrent
from flashinfer_bench.decompose.capture.writes import pure_form
from flashinfer_bench.decompose.ir import Dropped, Op, Ref
from flashinfer_bench.decompose.model_errors import NotRecordableError
from flashinfer_bench.decompose.names import DROPOUTS, STOCHASTIC

if TYPE_CHECKING:
    from flashinfer_bench.decompose.capture.objects import Layout
    from flashinfer_bench.decompose.capture.scopes import Scopes
    from flashinfer_bench.decompose.ir import Reason, Scope
    from flashinfer_bench.decompose.module_tensors import NamedTensor


Watch = Callable[[Op, tuple[torch.Tensor, ...], Mapping[str, torch.Tensor]], None]
"""Called after each operation of a real run with what it made and what it was given."""

_TRAINING = DROPOUTS | {
    "batch_norm", "instance_norm", "lstm", "gru", "rnn_tanh", "rnn_relu",
    "scaled_dot_product_attention",
}  # fmt: skip


@dataclass(frozen=True)
class Recorded:
    """An operation, and what becomes of it if nobody reads its outputs."""

    op: Op
    writes_state: str = ""
    """Name of the parameter, buffer or input that it wrote into."""
    restates: bool = False
    """Whether it is of our making: it says what aliasing did."""


@dataclass(frozen=True)
class Happened:
    """A call that ran: what it was given, what it wrote into, what it returned."""

    call: NamedCall
    given: list[torch.Tensor]
    outs: list[torch.Tensor]
    result: Any
    changed: list[torch.Tensor]
    layout: Layout | None = None
    """Of the first tensor given, before a call that may have changed it."""
    before: Mapping[int, torch.Tensor] = field(default_factory=dict)
    """Copies of what was given, by identity, from before a call that may have written into it."""


class Tape:
    """Writes down calls in static single assignment."""

    def __init__(
        self, scopes: Scopes, device: str, held: Mapping[int, NamedTensor], watch: Watch | None
    ) -> None:
        self.recorded: list[Recorded] = []
        self.values = Values()
        self.dropped: list[Dropped] = []
        self.specialisations: list[str] = []
        self.constants: dict[str, torch.Tensor] = {}
        self.arguments: dict[Scope, dict[str, str]] = {}
        """By scope, what its code calls the values that it was given."""
        self._scopes = scopes
        self._device = device
        self._held = dict(held)
        self._watch = watch
        self._objects = Objects(emit=self._restate, keep=device == "meta")

    # values

    def given(self, tensor: torch.Tensor, name: str) -> str:
        """Note an input of forward."""
        known = self._objects.find(tensor)
        if known is not None:
            return known.value
        return self._objects.add_given(tensor, self.values.add("input", tensor, name)).value

    def lookup(self, tensor: torch.Tensor) -> str:
        """Say which value an object holds now."""
        return self._objects.current(self._entry(tensor))

    def is_held(self, tensor: torch.Tensor) -> bool:
        """Tell whether a tensor was there before the run."""
        known = self._objects.find(tensor)
        return known.is_state if known else id(tensor) in self._held

    def lift(self, tensor: torch.Tensor, stands_for: torch.Tensor) -> None:
        """Note that a tensor takes the place of one that was there before the run; it is numbered when it is read."""
        if (held := self._held.get(id(stands_for))) is not None:
            self._held[id(tensor)] = held

    def _entry(self, tensor: torch.Tensor) -> TensorObject:
        entry = self._objects.find(tensor) or self._objects.twin(tensor)
        return entry or self._lifted(tensor, self._held.get(id(tensor)))

    def _lifted(self, tensor: torch.Tensor, held: NamedTensor | None) -> TensorObject:
        if held is None:
            raise NotRecordableError("a tensor appears that no recorded operation made")
        value = self.values.add(held.kind, tensor, held.name, held.aliases)
        if held.kind == "const":
            self.constants[value] = held.tensor
        return self._objects.add_given(tensor, value)

    # calls

    def note(self, happened: Happened) -> None:
        """Write down a call."""
        changed = self._without_statistics(happened)
        if changed:
            self._note_write(happened, changed)
        elif all(any(out is each for each in happened.given) for out in happened.outs):
            self.drop(happened.call.fn, "elided", "it returned what it was given")
        else:
            self._note_pure(happened)

    def _note_pure(self, happened: Happened) -> None:
        result, outs = happened.result, happened.outs
        call = tidy(happened.call, result)
        values = tuple(self.values.add("inter", each, call.last) for each in outs)
        structure = None
        if not isinstance(result, torch.Tensor):
            structure = structured(result, lambda out: place_in(outs, out))
        op = self._op(call, values, structure)
        for number, (out, value) in enumerate(zip(outs, values, strict=True)):
            if any(out is each for each in happened.given):
                continue
            base = next((each for each in happened.given if shares_memory(each, out)), None)
            link = _link_of(op, self._entry(base), base, outs, number) if base is not None else None
            self._objects.add(out, value, link=link)
        self._append(Recorded(op), happened, tuple(outs))

    def _note_write(self, happened: Happened, changed: list[torch.Tensor]) -> None:
        call = happened.call
        target = _target(call, changed)
        entry = self._entry(target)
        if self._is_whole_copy(call, target, entry):
            entry.layout = layout_of(target)
            self._objects.write(entry, self.lookup(call.args[1]))
            self.drop(call.fn, "elided", "copied over a whole tensor")
            return
        was_first = happened.layout is not None and happened.given[0] is target
        before = happened.layout if happened.layout and was_first else layout_of(target)
        pure = tidy(pure_form(tidy(call, target), target, before), target)
        op = self._op(pure, (self.values.add("inter", target, pure.last),), None)
        state = next((each for each in self._objects.chain(entry) if each.is_state), None)
        entry.layout = layout_of(target)
        name = self.values[state.first].name if state else ""
        self._append(Recorded(op, writes_state=name), happened, (target,))
        self._objects.write(entry, op.outs[0])

    def _is_whole_copy(self, call: NamedCall, target: torch.Tensor, entry: TensorObject) -> bool:
        """Tell whether a write only gives one value a second name: no operation, then."""
        if call.last != "copy_" or not isinstance(call.argument(1, "src"), torch.Tensor):
            return False
        source = call.args[1]
        alike = all(
            getattr(source, each) == getattr(target, each) for each in ("dtype", "shape")
        ) and (source.stride() == target.stride())
        return alike and not any(each.is_state for each in self._objects.chain(entry))

    def _without_statistics(self, happened: Happened) -> list[torch.Tensor]:
        """Leave out running statistics, which training writes beside what it computes."""
        call = happened.call
        if call.last not in ("batch_norm", "instance_norm"):
            return happened.changed
        pair = (call.argument(1, "running_mean"), call.argument(2, "running_var"))
        statistics = [each for each in pair if each is not None]
        if statistics and tidy(call, happened.result) != call:
            self.drop(call.fn, "side_effect", "updates running statistics")
            for each in statistics:
                self._entry(each).spoilt = "running statistics are read after they were updated"
        return [each for each in happened.changed if not any(each is own for own in statistics)]

    def _op(self, call: NamedCall, outs: tuple[str, ...], structure: Any) -> Op:
        if not call.fn:
            raise NotRecordableError("a function is called that has no public name")
        args = tuple(encoded(each, self.lookup) for each in call.args)
        kwargs = {key: encoded(each, self.lookup) for key, each in call.kwargs.items()}
        scope, source = self._scopes.here()
        self._name_arguments()
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
        self, fn: str, args: tuple[Any, ...], kwargs: dict[str, Any], holder: TensorObject
    ) -> str:
        """Record what aliasing did: a base that was written through a view, or a view of it."""
        shape, strides, _ = holder.layout
        made = torch.empty_strided(shape, strides, dtype=holder.dtype, device="meta")
        value = self.values.add("inter", made, fn.rpartition(".")[2])
        scope, source = self._scopes.here()
        op = Op(len(self.recorded), fn, args, kwargs, (value,), scope, source)
        self.recorded.append(Recorded(op, restates=True))
        return value

    def _append(
        self, recorded: Recorded, happened: Happened, outs: tuple[torch.Tensor, ...]
    ) -> None:
        self.recorded.append(recorded)
        if self._watch is None:
            return
        ins = {
            self._entry(each).value: happened.before.get(id(each), each)
            for each in happened.given
            if self._objects.find(each) or self._objects.twin(each)
        }
        self._watch(recorded.op, outs, {k: ins[k] for k in recorded.op.ins if k in ins})

    def _name_arguments(self) -> None:
        while self._scopes.entered:
            scope, given = self._scopes.entered.pop()
            found = {name: self._objects.find(each) for name, each in given.items()}
            names = {each.value: name for name, each in found.items() if each is not None}
            self.arguments.setdefault(scope, names)

    # what is no operation

    def specialise(self, what: str) -> None:
        """Note that the run holds for an answer only."""
        _, source = self._scopes.here()
        self.specialisations.append(f"{source}: {what}")

    def drop(self, fn: str, reason: Reason, detail: str) -> None:
        """Note a call that is no operation of the trace."""
        scope, _ = self._scopes.here()
        self.dropped.append(Dropped(fn=fn, scope=scope, reason=reason, detail=detail))


def _target(call: NamedCall, changed: list[torch.Tensor]) -> torch.Tensor:
    """Find which tensor a call wrote into; views of one memory count writes together."""
    target = next((each for each in changed if call.args and each is call.args[0]), changed[0])
    if not all(shares_memory(each, target) for each in changed):
        raise NotRecordableError(f"{call.fn} writes into several tensors")
    return target


def _draws(call: NamedCall) -> bool:
    if call.last in STOCHASTIC or call.last in DROPOUTS:
        return True
    if call.last == "scaled_dot_product_attention":
        return bool(call.argument(4, "dropout_p", 0.0))
    return is_recurrent(call.fn) and draws(call.args)


_PIECES = {"torch.split", "torch.chunk", "torch.tensor_split", "torch.split_with_sizes"}


def _link_of(
    op: Op, parent: TensorObject, base: torch.Tensor, outs: list[torch.Tensor], number: int
) -> ViewLink:
    """Say how output `number` of an operation is made from the object it is a view of."""
    if op.args and op.args[0] == Ref(parent.value):
        if op.structure is None:
            return ViewLink(parent, op.fn, op.args[1:], dict(op.kwargs))
        if op.fn == "torch.unbind":
            return ViewLink(parent, "torch.select", (_dim(op, 1), number), {})
        if op.fn in _PIECES:
            dim = _dim(op, 2)
            start = sum(each.shape[dim] for each in outs[:number])
            return ViewLink(parent, "torch.narrow", (dim, start, outs[number].shape[dim]), {})
    shape, strides, offset = layout_of(outs[number])
    return ViewLink(
        parent, "torch.as_strided", (shape, strides, offset - base.storage_offset()), {}
    )


def _dim(op: Op, place: int) -> int:
    dim: Any = op.args[place] if place < len(op.args) else op.kwargs.get("dim", 0)
    return int(dim)
