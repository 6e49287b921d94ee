"""From a model to its trace: on meta if that can be, else with values, by export, or as one piece."""

from __future__ import annotations

import contextlib
import inspect
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from flashinfer_bench.decompose.capture.caches import forget_cached
from flashinfer_bench.decompose.capture.encode import Values, place_in, structured
from flashinfer_bench.decompose.capture.exported import exported_trace
from flashinfer_bench.decompose.capture.recorder import CALLING, Recorder
from flashinfer_bench.decompose.capture.scopes import Scopes
from flashinfer_bench.decompose.capture.tape import Tape, Watch
from flashinfer_bench.decompose.ir import Dropped, Op, OpTrace, Ref, Scope
from flashinfer_bench.decompose.model_errors import (
    HiddenStateError,
    ModelFileError,
    NotRecordableError,
    is_full,
    line_in,
    raised_in,
)
from flashinfer_bench.decompose.model_file import ModelFile, ModelSource, in_reach_of
from flashinfer_bench.decompose.module_tensors import held_tensors, tensors_within
from flashinfer_bench.decompose.names import tensors_in

if TYPE_CHECKING:
    from torch import nn

    from flashinfer_bench.decompose.capture.tape import Recorded


_LONG = 200


@dataclass(frozen=True)
class Captured:
    """A trace, with the model and inputs of the run that made it."""

    trace: OpTrace
    model: nn.Module
    inputs: list[Any]
    constants: dict[str, torch.Tensor] = field(default_factory=dict)
    """Lifted constants by the id of their value; on meta they have no numbers."""


def capture(
    source: ModelSource, *, device: str = "meta", seed: int = 0, watch: Watch | None = None
) -> Captured:
    """Record what one forward call does.

    On `meta` there is always an answer: what cannot be recorded there is run with values, then exported, then
    taken as one piece; the trace's `front_end` and `notes` say which and why. Another device is run on as it is.
    """
    if device != "meta":
        return _run(source, device, seed, watch)
    try:
        return _run(source, "meta", seed, watch)
    except ModelFileError:
        raise
    except Exception as fault:  # noqa: BLE001  # the model's own code: anything may come
        return _with_values(source, seed, fault, watch)


def _with_values(source: ModelSource, seed: int, fault: Exception, watch: Watch | None) -> Captured:
    try:
        captured = _run(source, "cpu", seed, watch)
    except (NotRecordableError, MemoryError) as reason:
        return _by_export(source, seed, reason)
    except ModelFileError:
        raise
    except Exception as error:  # noqa: BLE001  # the model's own code: anything may come
        if is_full(error):
            return _by_export(source, seed, error)
        raise _blamed(source, error) from None
    where, line = line_in(source.path if isinstance(source, ModelFile) else None, fault)
    told = " ".join(
        filter(None, (line and f"{source.name}{where} `{line}` needs them:", _short(fault)))
    )
    note = f"recorded in a run with values on the CPU: {told}"
    return replace(captured, trace=replace(captured.trace, front_end="real", notes=(note,)))


def _by_export(source: ModelSource, seed: int, reason: BaseException) -> Captured:
    if isinstance(reason, HiddenStateError):
        return _as_one_piece(source, seed, (f"in a run: {_short(reason)}",))
    note = f"recorded by torch.export, since in a run: {_short(reason)}"
    for device in ("meta", "cpu"):  # on meta, tensors that forward makes on the CPU are in the way
        model, inputs = source.build(device, seed), source.inputs(device, seed)
        try:
            trace = exported_trace(source.name, model, inputs)
        except Exception as fault:  # noqa: BLE001  # export fails in many ways
            faults = (f"in a run: {_short(reason)}", f"by torch.export: {_short(fault)}")
            continue
        return Captured(replace(trace, notes=(note,)), model, inputs)
    return _as_one_piece(source, seed, faults)


def _as_one_piece(source: ModelSource, seed: int, reasons: tuple[str, ...]) -> Captured:
    for device in ("meta", "cpu"):
        model, inputs = source.build(device, seed), source.inputs(device, seed)
        try:
            with as_written(), in_reach_of(model), torch.device(device), torch.no_grad():
                result = model(*inputs)
        except Exception as error:  # noqa: BLE001  # the model's own code: anything may come
            if device == "cpu":
                raise _blamed(source, error) from None
            continue
        names = _input_names(model, inputs)
        notes = tuple(f"taken as one piece, since {each}" for each in reasons)
        trace = _opaque_trace(source.name, model, inputs, names, result)
        return Captured(replace(trace, notes=notes), model, inputs)
    raise AssertionError


def probe(
    source: ModelSource,
    shapes: Mapping[int, Sequence[int]],
    *,
    seed: int = 0,
    device: str = "meta",
) -> OpTrace:
    """Record again with other sizes of some inputs, counted as in `OpTrace.inputs`.

    Where there are numbers, a longer input repeats its own, a shorter one has the first of them. What the model
    or torch raises at such sizes is raised as it is: they may be impossible.
    """
    model, inputs = source.build(device, seed), source.inputs(device, seed)
    tensors = list({id(each): each for each in tensors_in(inputs)}.values())
    other = {id(tensors[index]): _sized(tensors[index], shape) for index, shape in shapes.items()}
    return _traced(source.name, model, _replaced(inputs, other), device, None)[0]


def _sized(given: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    if given.device.type == "meta":
        return torch.empty(tuple(shape), dtype=given.dtype, device="meta")
    for axis, size in enumerate(shape):
        given = given.index_select(axis, torch.arange(size) % given.shape[axis])
    return given


def _replaced(value: Any, other: Mapping[int, torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        return other.get(id(value), value)
    if isinstance(value, Mapping):
        return {key: _replaced(each, other) for key, each in value.items()}
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return type(value)(_replaced(each, other) for each in value)
    return value


def _run(source: ModelSource, device: str, seed: int, watch: Watch | None) -> Captured:
    model, inputs = source.build(device, seed), source.inputs(device, seed)
    trace, constants = _traced(source.name, model, inputs, device, watch)
    return Captured(trace, model, inputs, constants)


def _traced(
    name: str, model: nn.Module, inputs: list[Any], device: str, watch: Watch | None
) -> tuple[OpTrace, dict[str, torch.Tensor]]:
    forget_cached(model)
    scopes = Scopes(model)
    tape = Tape(scopes, device, held_tensors(model), watch)
    recorder = Recorder(tape, device, keep_before=watch is not None)
    names = _input_names(model, inputs)
    given = [tape.given(each, names[id(each)]) for each in tensors_in(inputs)]
    values = tuple(dict.fromkeys(given))
    structure = structured(inputs, lambda each: values.index(tape.given(each, "")))
    surroundings = (as_written(), in_reach_of(model), torch.device(device), torch.no_grad())
    with contextlib.ExitStack() as stack:
        for each in (*surroundings, scopes.followed(), recorder):
            stack.enter_context(each)
        result = model(*inputs)
    if next(tensors_in(result), None) is None:
        raise ModelFileError(
            f"{name}: forward returns no tensor but a {type(result).__name__}: "
            "let it return tensors, or lists, tuples and dicts of them"
        )
    return _finished(name, tape, values, structure, result), tape.constants


def _input_names(model: nn.Module, inputs: list[Any]) -> dict[int, str]:
    """Name each input tensor as forward's signature does."""
    parameters = list(inspect.signature(model.forward).parameters)
    names: dict[int, str] = {}
    for index, value in enumerate(inputs):
        name = parameters[index] if index < len(parameters) else f"{parameters[-1]}_{index}"
        for found, tensor in tensors_within(value, name, depth=8):
            names.setdefault(id(tensor), found)
    return names


@contextlib.contextmanager
def as_written() -> Iterator[None]:
    """Keep to the functions people write: no fused fast paths, nothing compiled."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with _nothing_compiled():
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


def _nothing_compiled() -> contextlib.AbstractContextManager[Any]:
    """Run what the model wraps in `torch.compile` as it is written; without dynamo there is no such thing."""
    if "torch._dynamo" not in sys.modules:  # loading it takes two seconds
        return contextlib.nullcontext()
    stance: contextlib.AbstractContextManager[Any] = torch.compiler.set_stance("force_eager")
    return stance


def _blamed(source: ModelSource, error: Exception) -> Exception:
    """Name the line of the model that raised; a fault of ours stays what it is."""
    innermost = traceback.extract_tb(error.__traceback__)[-1]
    if Path(innermost.filename).parent == Path(__file__).parent and innermost.name not in CALLING:
        return error
    return raised_in(source.path if isinstance(source, ModelFile) else None, "forward", error)


def _short(reason: BaseException) -> str:
    text = " ".join(str(reason).split()) or type(reason).__name__
    return text if len(text) <= _LONG else text[:_LONG].rsplit(" ", 1)[0] + " …"


def _finished(
    name: str, tape: Tape, inputs: tuple[str, ...], input_structure: Any, result: Any
) -> OpTrace:
    """Make the trace of a run that returned `result`."""
    outputs = tuple(dict.fromkeys(tape.lookup(each) for each in tensors_in(result)))

    def place(tensor: torch.Tensor) -> int:
        return outputs.index(tape.lookup(tensor))

    output_structure = structured(result, place)
    needed, for_state = _needed(tape.recorded, outputs)
    ops = tuple(each.op for each in tape.recorded if each.op.id in needed)
    used = {*inputs, *outputs, *(value for op in ops for value in (*op.ins, *op.outs))}
    return OpTrace(
        model=name,
        values={key: value for key, value in tape.values.items() if key in used},
        ops=ops,
        inputs=inputs,
        input_structure=input_structure,
        outputs=outputs,
        output_structure=output_structure,
        dropped=(*tape.dropped, *_left_out(tape.recorded, needed, for_state)),
        specialisations=tuple(dict.fromkeys(tape.specialisations)),
        arguments=tape.arguments,
    )


def _needed(recorded: list[Recorded], outputs: tuple[str, ...]) -> tuple[set[int], set[int]]:
    """Find the operations that outputs need, and those that only a write to the model's state needs."""
    wanted = set(outputs)
    wanted_by_state: set[str] = set()
    needed: set[int] = set()
    for_state: set[int] = set()
    for each in reversed(recorded):
        op = each.op
        if wanted & set(op.outs):
            needed.add(op.id)
            wanted |= set(op.ins)
        elif each.writes_state or wanted_by_state & set(op.outs):
            for_state.add(op.id)
            wanted_by_state |= set(op.ins)
    return needed, for_state


def _left_out(recorded: list[Recorded], needed: set[int], for_state: set[int]) -> list[Dropped]:
    found = []
    for each in recorded:
        if each.op.id in needed or each.restates:
            continue
        detail = f"writes {each.writes_state}" if each.writes_state else ""
        is_for_state = each.op.id in for_state
        found.append(
            Dropped(each.op.fn, each.op.scope, "side_effect" if is_for_state else "dead", detail)
        )
    return found


_OPAQUE = "opaque"
"""Name of the operation that is a whole model."""


def _opaque_trace(
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
    outs = tuple(values.add("inter", each, _OPAQUE) for each in made)
    structure = structured(result, lambda each: place_in(made, each))
    op = Op(
        id=0,
        fn=_OPAQUE,
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


def same_stream(one: OpTrace, other: OpTrace, *, numbers: bool = False) -> str | None:
    """Say where two traces part; none if operations, what they read and what they make agree.

    Sizes and other integers may differ unless `numbers` asks for them too.
    """
    if one.inputs != other.inputs or one.outputs != other.outputs:
        return "inputs or outputs differ"
    for left, right in zip(one.ops, other.ops, strict=False):
        fault = _difference(left, right, numbers=numbers)
        if fault:
            return f"operation {left.id} ({left.fn}, {left.source}): {fault}"
    if len(one.ops) != len(other.ops):
        return f"{len(one.ops)} operations against {len(other.ops)}"
    return None


def _difference(left: Op, right: Op, *, numbers: bool) -> str | None:
    if (left.id, left.fn) != (right.id, right.fn):
        return f"the other is {right.id} ({right.fn})"
    if (left.ins, left.outs) != (right.ins, right.outs):
        return f"reads {left.ins} and makes {left.outs}, the other {right.ins} and {right.outs}"
    mine, theirs = ((op.args, dict(op.kwargs)) for op in (left, right))
    if not numbers:
        mine, theirs = _without_integers(mine), _without_integers(theirs)
    return None if mine == theirs else f"its arguments are {mine}, the other's {theirs}"


def _without_integers(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_integers(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return tuple(_without_integers(each) for each in value)
    return 0 if isinstance(value, int | float) and not isinstance(value, bool) else value
