"""Problems become definitions of a dataset: weights are inputs, and the reference is plain PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from flashinfer_bench.data import Definition, Workload
from flashinfer_bench.data.workload import RandomInput, SafetensorsInput, uuid_of
from flashinfer_bench.decompose.process import (
    Refused,
    WorkDone,
    WorkEnded,
    WorkLimits,
    WorkTask,
    run_each,
)
from flashinfer_bench.kernelbench.descriptions import Description
from flashinfer_bench.kernelbench.library import label_of, local_sources
from flashinfer_bench.kernelbench.tasks import (
    OP_TYPE,
    axes_of,
    definition_name,
    input_specs,
    output_specs,
    workload_inputs,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_JOB = "flashinfer_bench.kernelbench.describing:describe_model"
_SECONDS = 600.0
_ANY_MEMORY = 1 << 50
SEED = 42  # KernelBench's own


class Parameter(msgspec.Struct, frozen=True):
    """A weight or a buffer of the model."""

    path: str
    """Its name in the model."""
    name: str
    """Its name as an input."""
    shape: tuple[int, ...]
    dtype: str
    distribution: dict[str, Any] | None
    is_stored: bool
    is_buffer: bool


class ImportedProblem(msgspec.Struct, frozen=True):
    """What running a problem told."""

    found: Description
    parameters: tuple[Parameter, ...]


def look_at_each(problems: Mapping[Path, Path]) -> Iterator[tuple[Path, ImportedProblem | str]]:
    """Run problems, each in a process of its own; tensors that stay fixed are left in the folder given with each."""
    by_name = {str(problem): problem for problem in problems}
    tasks = (
        WorkTask(_JOB, (str(problem.resolve()), str(folder), SEED, "cpu"), name=str(problem))
        for problem, folder in problems.items()
    )
    for task, outcome in run_each(tasks, WorkLimits(seconds=_SECONDS, memory_bytes=_ANY_MEMORY)):
        problem = by_name[task.name]
        match outcome:
            case WorkDone(value=value):
                imported = msgspec.convert(value, ImportedProblem)
                yield problem, _why_not(problem, imported.found) or imported
            case Refused(message=message) | WorkEnded(message=message):
                yield problem, message


def definition_of(problem: Path, imported: ImportedProblem) -> Definition:
    """Make the definition: what forward takes, then the model's weights and buffers."""
    found = imported.found
    return Definition(
        name=definition_name(problem),
        op_type=OP_TYPE,
        axes=axes_of([*found.inputs, *imported.parameters, *found.outputs]),
        inputs={**input_specs(found.inputs), **input_specs(imported.parameters, role="static")},
        outputs=output_specs(found.outputs),
        reference=_reference(problem, imported),
        tags=[f"source:kernelbench/{label_of(problem)}"],
        description=f"{problem.name}; its weights and buffers are the inputs named p_…",
    )


def workload_of(definition: Definition, imported: ImportedProblem, folder: str) -> Workload:
    """Make the workload of KernelBench's sizes; what is stored lies in `folder`, relative to the dataset."""
    inputs = workload_inputs(imported.found, folder, SEED)
    for weight in imported.parameters:
        inputs[weight.name] = (
            SafetensorsInput(path=f"{folder}/parameters.safetensors", tensor_key=weight.name)
            if weight.is_stored
            else RandomInput.model_validate({"distribution": weight.distribution})
        )
    return Workload(axes={}, inputs=inputs, uuid=uuid_of(definition.name, {}, inputs))


def _why_not(problem: Path, found: Description) -> str | None:
    """Say why a problem cannot be a definition of plain PyTorch."""
    if not found.outputs:
        return "forward returns no tensor, so there is nothing to judge"
    if found.is_random:
        return (
            "forward draws random numbers, so there is no one answer; `kernelbench eval` seeds it"
        )
    if any(part != ["input", index] for index, part in enumerate(found.template)):
        return "forward takes more than tensors and numbers; `kernelbench eval` packs them"
    if len(local_sources(problem)) > 1:
        return "it imports files that lie beside it; `kernelbench eval` brings them along"
    return None


_RUN = """

import torch as _torch

_MODELS = {{}}


def _model(device):
    if device not in _MODELS:
        _MODELS[device] = Model(*get_init_inputs()).to(device)
    return _MODELS[device]


def _tensors(value):
    if isinstance(value, dict):
        value = [value[key] for key in sorted(value, key=str)]
    if isinstance(value, (list, tuple)):
        return [tensor for each in value for tensor in _tensors(each)]
    return [] if value is None else [_torch.as_tensor(value)]


def run({names}):
    given = [{given}]
    state = {{{state}}}
    device = next((each.device for each in [*given, *state.values()] if isinstance(each, _torch.Tensor)), "cpu")
    with _torch.no_grad():
        found = _tensors(_torch.func.functional_call(_model(device), state, tuple(given)))
    for index in {shared}:
        found[index] = found[index].clone()
    return found[0] if len(found) == 1 else tuple(found)
"""


def _reference(problem: Path, imported: ImportedProblem) -> str:
    """Write the problem's own source, and a `run` that puts the weights into its model."""
    found = imported.found
    source = local_sources(problem)[problem.name].rstrip()
    given = [
        f"{each.name}.clone()" if index in found.written else each.name
        for index, each in enumerate(found.inputs)
    ]
    state = [  # a buffer may be written to, as running means are
        f"{each.path!r}: {each.name}{'.clone()' if each.is_buffer else ''}"
        for each in imported.parameters
    ]
    names = [each.name for each in found.inputs] + [each.name for each in imported.parameters]
    return source + _RUN.format(
        names=", ".join(names),
        given=", ".join(given),
        state=", ".join(state),
        shared=list(found.shared),
    )
