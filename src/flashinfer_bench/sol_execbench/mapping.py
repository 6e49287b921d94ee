"""Problems, workloads and solutions of SOL-ExecBench as definitions, workloads and solutions here."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError

from flashinfer_bench.data.definition import Definition
from flashinfer_bench.data.solution import BuildSpec, Solution
from flashinfer_bench.data.workload import (
    InputSpec,
    RandomInput,
    SafetensorsInput,
    ScalarInput,
    Workload,
    WorkloadTolerance,
)
from flashinfer_bench.errors import DatasetError
from flashinfer_bench.sol_execbench.entities import SolRandom, SolSafetensors, SolScalar

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from flashinfer_bench.data.entity import Entity
    from flashinfer_bench.sol_execbench.entities import SolDefinition, SolSolution, SolWorkload

OP_TYPE = "sol_execbench"
SOURCE_TAG = "source:sol-execbench/"
MODEL_TAG = "hf_id:"
LANGUAGES: Mapping[str, tuple[str, str | None]] = {
    "pytorch": ("python", None),
    "triton": ("triton", None),
    "cuda_cpp": ("cuda", None),
    "cute_dsl": ("python", "cute"),
    "cutile": ("python", "cutile"),
    "cudnn_frontend": ("python", "cudnn_frontend"),
}
"""Their languages as ours, and the tag that tells what Python is written with."""
UNTRIED = frozenset({"cutile", "cudnn_frontend"})
"""Languages that nothing here was tried with."""

E = TypeVar("E", bound="Entity")


def definition_of(found: SolDefinition, source: str, label: str, file: Path) -> Definition:
    """Make the definition of a problem; `label` is its group and folder."""
    content = {
        "name": found.name,
        "op_type": OP_TYPE,
        "axes": {name: axis.to_dict() for name, axis in found.axes.items()},
        "inputs": {name: each.to_dict() for name, each in found.inputs.items()},
        "outputs": {name: each.to_dict() for name, each in found.outputs.items()},
        "reference": source,
        "tags": [
            f"{SOURCE_TAG}{label}",
            *([f"{MODEL_TAG}{found.hf_id}"] if found.hf_id is not None else []),
        ],
        "description": found.description,
    }
    definition = _made(Definition, content, file)
    _require_call(definition, file)
    return definition


def _require_call(definition: Definition, file: Path) -> None:
    """Refuse a reference that takes other names: it is not known whether it is called by name."""
    (run,) = [
        node
        for node in ast.parse(definition.reference).body
        if isinstance(node, ast.FunctionDef) and node.name == "run"
    ][-1:]
    taken = [each.arg for each in (*run.args.posonlyargs, *run.args.args, *run.args.kwonlyargs)]
    if taken != list(definition.inputs) or run.args.kwonlyargs:
        raise DatasetError(
            f"the reference is run({', '.join(taken)}), the inputs are "
            f"{', '.join(definition.inputs)}: give both the same names and order",
            path=file,
        )


def workload_of(
    found: SolWorkload,
    definition: Definition,
    stored: Mapping[str, str],
    made: Mapping[str, InputSpec],
) -> Workload:
    """Make a workload; `stored` tells where files lie here, `made` what became of custom inputs."""
    inputs: dict[str, InputSpec] = {}
    for name in definition.inputs:
        match found.inputs[name]:
            case SolRandom():
                inputs[name] = RandomInput()
            case SolScalar(value=value):
                inputs[name] = ScalarInput(value=value)
            case SolSafetensors(path=path, tensor_key=key):
                inputs[name] = SafetensorsInput(path=stored[path], tensor_key=key)
            case _:
                inputs[name] = made[name]
    return Workload(
        axes=found.axes,
        inputs=inputs,
        uuid=found.uuid,
        tolerance=WorkloadTolerance(
            rtol=found.tolerance.max_rtol,
            atol=found.tolerance.max_atol,
            required_matched_ratio=found.tolerance.required_matched_ratio,
        ),
    )


def require_inputs(found: SolWorkload, definition: Definition, file: Path, line: int) -> None:
    """Refuse a workload that names other inputs or axes than its problem, or breaks with it."""
    for what, named, known in (
        ("input", found.inputs.keys(), definition.inputs.keys()),
        ("axis", found.axes.keys() - definition.const_axes.keys(), set(definition.var_axes)),
    ):
        for name in sorted(named ^ known):
            fault = "is missing" if name in known else "is none of the problem's"
            raise DatasetError(f"{what} {name!r} {fault}", path=file, line=line)
    for name, source in found.inputs.items():
        is_scalar = definition.inputs[name].shape is None
        if is_scalar and isinstance(source, SolRandom | SolSafetensors):
            raise DatasetError(f"input {name!r} is a scalar: give its value", path=file, line=line)
        if not is_scalar and isinstance(source, SolScalar):
            raise DatasetError(f"input {name!r} is a tensor, not a scalar", path=file, line=line)
    try:
        definition.require_workload(Workload(axes=found.axes, inputs={}, uuid=found.uuid))
    except DatasetError as error:
        raise DatasetError(str(error), path=file, line=line) from None


def solution_of(found: SolSolution, file: Path) -> Solution:
    """Make a solution; what would be built or called otherwise here is refused."""
    language, dsl = _language(found, file)
    spec = found.spec
    if language == "cuda" and spec.binding is None:
        raise DatasetError(
            "spec.binding: is required for compiled code, as it is not known what holds without it: "
            "torch or tvm-ffi",
            path=file,
        )
    build = {
        "language": language,
        "target_hardware": spec.target_hardware,
        "entry_point": spec.entry_point,
        "dependencies": spec.dependencies,
        "destination_passing_style": spec.destination_passing_style,
        "binding": spec.binding,
        "dsl": dsl,
    }
    content = {
        "name": found.name,
        "definition": found.definition,
        "author": found.author,
        "spec": _made(BuildSpec, build, file, "spec"),
        "sources": found.sources,
        "description": found.description,
    }
    return _made(Solution, content, file)


def _language(found: SolSolution, file: Path) -> tuple[str, str | None]:
    named = list(dict.fromkeys(found.spec.languages))
    for each in named:
        if each not in LANGUAGES:
            known = ", ".join(LANGUAGES)
            raise DatasetError(f"spec.languages: {each!r} is not known ({known})", path=file)
    chosen = [each for each in named if each != "pytorch"] or named  # which all of them may use
    if len(chosen) > 1:
        raise DatasetError(
            f"spec.languages: {', '.join(chosen)}: a solution has one language here", path=file
        )
    language, dsl = LANGUAGES[chosen[0]]
    entry = found.spec.entry_point.partition("::")[0]
    if (language == "cuda") is entry.endswith(".py"):
        raise DatasetError(f"spec.entry_point: {entry!r} is no file in {chosen[0]}", path=file)
    return language, dsl


def _made(cls: type[E], content: Any, file: Path, where: str = "") -> E:
    try:
        return cls.model_validate(content)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
    place = ".".join(filter(None, [where, *map(str, fault["loc"])]))
    message = str(fault["msg"]).removeprefix("Value error, ")
    raise DatasetError(f"{place}: {message}" if place else message, path=file)
