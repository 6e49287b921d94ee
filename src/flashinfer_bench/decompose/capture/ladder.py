"""From a model to its trace: on meta if that can be, else with real values, and never without an answer."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TYPE_CHECKING

import torch
from torch import nn

from flashinfer_bench.decompose.capture.encode import structured
from flashinfer_bench.decompose.capture.faults import NotRecordableError
from flashinfer_bench.decompose.capture.finish import finished
from flashinfer_bench.decompose.capture.recorder import Recorder, Watch
from flashinfer_bench.decompose.capture.scopes import Scopes
from flashinfer_bench.decompose.held import held_tensors
from flashinfer_bench.decompose.model_file import ModelFile, ModelSource, raised_in
from flashinfer_bench.decompose.names import tensors_in

if TYPE_CHECKING:
    from flashinfer_bench.decompose.ir import Trace


@dataclass(frozen=True)
class Captured:
    """A trace, with the model and inputs of the run that made it."""

    trace: Trace
    model: nn.Module
    inputs: list[Any]
    constants: dict[str, torch.Tensor] = field(default_factory=dict)
    """Lifted constants by the id of their value; on meta they have no numbers."""


def capture(
    source: ModelSource, *, device: str = "meta", seed: int = 0, watch: Watch | None = None
) -> Captured:
    """Record what one forward call does; on meta first, with values where that cannot be."""
    if device != "meta":
        return _run(source, device, seed, watch)
    try:
        return _run(source, "meta", seed, watch)
    except Exception as fault:  # the model's own code: anything may come
        return _with_values(source, seed, watch, fault)


def probe(source: ModelSource, shapes: Mapping[int, Sequence[int]], *, seed: int = 0) -> Trace:
    """Record again on meta, with other sizes of some inputs; the keys count the tensors given."""
    model, inputs = source.build("meta", seed), source.inputs("meta", seed)
    tensors = list(tensors_in(inputs))
    other = {
        id(tensors[index]): torch.empty(tuple(shape), dtype=tensors[index].dtype, device="meta")
        for index, shape in shapes.items()
    }
    return _traced(source.name, model, _replaced(inputs, other), "meta", None)[0]


def _replaced(value: Any, other: Mapping[int, torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        return other.get(id(value), value)
    if isinstance(value, Mapping):
        return {key: _replaced(each, other) for key, each in value.items()}
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return type(value)(_replaced(each, other) for each in value)
    return value


def _with_values(source: ModelSource, seed: int, watch: Watch | None, fault: Exception) -> Captured:
    try:
        captured = _run(source, "cpu", seed, watch)
    except NotRecordableError:
        raise
    except Exception as error:  # the model's own code: anything may come
        path = source.path if isinstance(source, ModelFile) else None
        raise raised_in(path, "forward", error) from None
    reason = f"run with values, as without them: {' '.join(str(fault).split())}"
    return replace(captured, trace=replace(captured.trace, notes=(reason,), front_end="real"))


def _run(source: ModelSource, device: str, seed: int, watch: Watch | None) -> Captured:
    model, inputs = source.build(device, seed), source.inputs(device, seed)
    trace, constants = _traced(source.name, model, inputs, device, watch)
    return Captured(trace, model, inputs, constants)


def _traced(
    name: str, model: nn.Module, inputs: list[Any], device: str, watch: Watch | None
) -> tuple[Trace, dict[str, torch.Tensor]]:
    scopes = Scopes(model)
    recorder = Recorder(scopes, device, held_tensors(model), watch)
    given = list(tensors_in(inputs))
    names = _input_names(model, inputs)
    values = tuple(recorder.given(each, names[id(each)]) for each in given)
    structure = structured(inputs, lambda each: values.index(recorder.given(each, "")))
    with _quiet(), torch.device(device), torch.no_grad(), scopes.followed(), recorder:
        result = model(*inputs)
    trace = finished(name, recorder, tuple(dict.fromkeys(values)), structure, result)
    return trace, recorder.constants()


def _input_names(model: nn.Module, inputs: list[Any]) -> dict[int, str]:
    """Name each input tensor as forward's signature does."""
    import inspect

    from flashinfer_bench.decompose.held import tensors_within

    parameters = list(inspect.signature(model.forward).parameters)
    names: dict[int, str] = {}
    for index, value in enumerate(inputs):
        name = parameters[index] if index < len(parameters) else f"{parameters[-1]}_{index}"
        for found, tensor in tensors_within(value, name, 8):
            names.setdefault(id(tensor), found)
    return names


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep to the functions people write: no fused fast paths, nothing compiled."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with _nothing_compiled():
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


def _nothing_compiled() -> contextlib.AbstractContextManager[object]:
    """Run what the model wraps in `torch.compile` as it is written; without dynamo there is no such thing."""
    if "torch._dynamo" not in sys.modules:  # loading it takes two seconds
        return contextlib.nullcontext()
    return torch.compiler.set_stance("force_eager")
