"""Problems, workloads and solutions of SOL-ExecBench as definitions, workloads and solutions here."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError

from flashinfer_bench.data import expressions
from flashinfer_bench.data.definition import Definition
from flashinfer_bench.data.opening import DOCUMENT_BYTES, path_inside, read_bytes, require_inside
from flashinfer_bench.data.shapes import AxisExpr
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
from flashinfer_bench.sol_execbench.random_inputs import drawn_there

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from flashinfer_bench.data.distributions import Distribution
    from flashinfer_bench.data.entity import Entity
    from flashinfer_bench.sol_execbench.entities import (
        SolDefinition,
        SolSolution,
        SolTensor,
        SolWorkload,
    )

OP_TYPE = "sol_execbench"
SOURCE_TAG = "source:sol-execbench/"
MODEL_TAG = "hf_id:"
FAMILY_TAG = "op_type:"
LITERAL_AXIS = "len_"
"""Begins the name of an axis whose length stands in shapes as digits."""
ELEMENTS_AXIS = "elements_of_"
"""Begins the name of an axis of twice the length: four-bit tensors that are stored count pairs there, elements here."""
FOUR_BIT = "float4_e2m1"
TINY = 1e-30
"""Stands for a tolerance of 0, which has no form here."""
LANGUAGES: Mapping[str, tuple[str, str | None]] = {
    "pytorch": ("python", None),
    "triton": ("triton", None),
    "cuda_cpp": ("cuda", None),
    "cutlass": ("cuda", None),
    "cudnn": ("cuda", None),
    "cublas": ("cuda", None),
    "cute_dsl": ("python", "cute"),
    "cutile": ("python", "cutile"),
    "cudnn_frontend": ("python", "cudnn_frontend"),
}
"""Their languages as ours, and the tag that tells what Python is written with."""
UNTRIED = frozenset({"cutile", "cudnn_frontend"})
"""Languages that nothing here was tried with."""

E = TypeVar("E", bound="Entity")


def definition_of(
    found: SolDefinition,
    source: str,
    label: str,
    file: Path,
    *,
    free: Iterable[str] = (),
    numbers: Iterable[str] = (),
    pairs: Iterable[str] = (),
) -> Definition:
    """Make the definition of a problem; `label` is its group and folder, `free` constants that workloads change.

    `numbers`: inputs with a shape for which every workload passes a number. `pairs`: four-bit inputs that are stored.
    """
    axes = {name: axis.to_dict() for name, axis in found.axes.items()}
    axes |= {name: {"type": "var"} for name in free}
    for axis in found.axes.values():
        if isinstance(axis, AxisExpr):  # workloads may give lengths that no axis declares
            undeclared = expressions.parse(axis.expression).names - axes.keys()
            axes |= {name: {"type": "var"} for name in sorted(undeclared)}
    lengths: dict[str, str] = {}
    tags = {MODEL_TAG: found.hf_id, FAMILY_TAG: found.op_type}
    passed = {
        name: each.model_copy(update={"shape": None}) if name in set(numbers) else each
        for name, each in found.inputs.items()
    }
    content = {
        "name": found.name,
        "op_type": OP_TYPE,
        "axes": axes,
        "inputs": {
            n: _with_axes(each, axes, lengths, counts_pairs=n in set(pairs))
            for n, each in passed.items()
        },
        "outputs": {n: _with_axes(each, axes, lengths) for n, each in found.outputs.items()},
        "reference": _called_as_here(source, list(found.inputs), list(found.outputs)),
        "judge": "summed",
        "tags": [
            f"{SOURCE_TAG}{label}",
            *(f"{tag}{value}" for tag, value in tags.items() if value is not None),
        ],
        "description": found.description,
    }
    definition = _made(Definition, content, file)
    _require_call(definition, file)
    return definition


def _called_as_here(source: str, inputs: list[str], outputs: list[str]) -> str:
    """Let a reference write into copies where it writes into inputs, and return in order what it returns as a dict.

    There both are taken as they are; here inputs stay as they were made, and outputs are told by their order.
    """
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError):  # said when the definition is made
        return source
    runs = [node for node in body if isinstance(node, ast.FunctionDef) and node.name == "run"]
    written = _written(runs[-1]) if runs else set()
    by_name = bool(runs) and _returns_dict(runs[-1])
    if written.isdisjoint(inputs) and not by_name:
        return source
    copies = ", ".join(f"{name}.clone()" if name in written else name for name in inputs)
    returned = f"    return _run({copies})\n"
    if by_name:
        in_order = ", ".join(f"found[{name!r}]" for name in outputs)
        returned = f"    found = _run({copies})\n    return {in_order}\n"
    return f"{source.rstrip()}\n\n\n_run = run\n\n\ndef run({', '.join(inputs)}):\n{returned}"


def _returns_dict(function: ast.FunctionDef) -> bool:
    """Tell whether a function, leaving out those within it, returns a dict that is written out."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Dict):
            return True
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            waiting.extend(ast.iter_child_nodes(node))
    return False


def _written(function: ast.FunctionDef) -> set[str]:
    """Name what a function changes in place: by a method such as `add_`, an item, or `+=`."""
    changed: list[ast.expr] = []
    for node in ast.walk(function):
        match node:
            case ast.Call(func=ast.Attribute(value=value, attr=name)) if name.endswith(
                "_"
            ) and not name.endswith("__"):
                changed.append(value)
            case ast.Assign(targets=targets):
                changed += [each.value for each in targets if isinstance(each, ast.Subscript)]
            case ast.AugAssign(target=target):
                changed.append(target.value if isinstance(target, ast.Subscript) else target)
            case _:
                pass
    return {each.id for each in changed if isinstance(each, ast.Name)}


def _with_axes(
    tensor: SolTensor,
    axes: dict[str, dict[str, Any]],
    lengths: dict[str, str],
    *,
    counts_pairs: bool = False,
) -> dict[str, Any]:
    """Write a constant axis for each length that a shape gives as digits; `lengths` tells their names.

    The last length of a tensor that counts pairs is doubled.
    """
    content = tensor.to_dict()
    if tensor.shape is None:
        return content
    for entry in tensor.shape:
        if entry.isdecimal() and entry not in lengths:
            name = f"{LITERAL_AXIS}{entry}"
            while name in axes:
                name += "_"
            lengths[entry] = name
            axes[name] = {"type": "const", "value": int(entry)}
    shape = [lengths.get(entry, entry) for entry in tensor.shape]
    if counts_pairs and shape:
        name = f"{ELEMENTS_AXIS}{shape[-1]}"
        axes[name] = {"type": "expr", "expression": f"2 * {shape[-1]}"}
        shape[-1] = name
    return content | {"shape": shape}


def _require_call(definition: Definition, file: Path) -> None:
    """Refuse a reference whose first `run` takes other names: their loader does."""
    run = next(
        node
        for node in ast.parse(definition.reference).body
        if isinstance(node, ast.FunctionDef) and node.name == "run"
    )
    taken = [each.arg for each in (*run.args.posonlyargs, *run.args.args)]
    if taken != list(definition.inputs):
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
        match found.inputs.get(name, SolRandom()):
            case SolRandom():
                inputs[name] = RandomInput(distribution=_drawn(name, found, definition))
            case SolScalar(value=value):
                inputs[name] = ScalarInput(value=value)
            case SolSafetensors(path=path, tensor_key=key):
                inputs[name] = SafetensorsInput(path=stored[path], tensor_key=key)
            case _:
                inputs[name] = made[name]
    there = found.tolerance
    return Workload(
        axes=axes_of(found, definition),
        inputs=inputs,
        uuid=found.uuid,
        tolerance=WorkloadTolerance(
            rtol=max(TINY, there.max_rtol),
            atol=max(TINY, there.max_atol),
            required_matched_ratio=max(TINY, there.required_matched_ratio),
            max_error_cap=there.max_error_cap,
            allow_negative_inf=there.allow_negative_inf,
        ),
    )


def axes_of(found: SolWorkload, definition: Definition) -> dict[str, int]:
    """Give the lengths of the variable axes; others are not the workload's to say."""
    return {name: found.axes[name] for name in definition.var_axes if name in found.axes}


def _drawn(name: str, found: SolWorkload, definition: Definition) -> Distribution | None:
    spec = definition.inputs[name]
    shapes = definition.get_input_shapes(axes_of(found, definition))
    shape = dict(zip(definition.inputs, shapes, strict=True))[name]
    return drawn_there(name, shape, str(spec.dtype), spec.description, family_of(definition))


def family_of(definition: Definition) -> str | None:
    """Give the op type that a problem had there."""
    return next(
        (tag.removeprefix(FAMILY_TAG) for tag in definition.tags if tag.startswith(FAMILY_TAG)),
        None,
    )


def require_inputs(found: SolWorkload, definition: Definition, file: Path, line: int) -> None:
    """Refuse a workload that gives no length for an axis, a tensor for a scalar, or a scalar for a tensor."""
    for name, source in found.inputs.items():
        spec = definition.inputs.get(name)
        if spec is None:
            if isinstance(source, SolSafetensors):
                raise DatasetError(f"input {name!r} is none of the problem's", path=file, line=line)
            continue
        if spec.shape is None and isinstance(source, SolSafetensors):
            raise DatasetError(f"input {name!r} is a scalar: give its value", path=file, line=line)
        if spec.shape is not None and isinstance(source, SolScalar):
            raise DatasetError(
                f"input {name!r} is a tensor: here it cannot be passed as a number",
                path=file,
                line=line,
            )
    axes = axes_of(found, definition)
    try:
        definition.require_workload(Workload(axes=axes, inputs={}, uuid=found.uuid))
    except DatasetError as error:
        raise DatasetError(str(error), path=file, line=line) from None


def solution_of(found: SolSolution, definition: str, file: Path, root: Path) -> Solution:
    """Make a solution of a problem, whatever definition it names: there nobody compares the names."""
    language, dsl = _language(found, file)
    spec = found.spec
    build = {
        "language": language,
        "target_hardware": spec.target_hardware,
        "entry_point": spec.entry_point,
        "dependencies": spec.dependencies,
        "destination_passing_style": spec.destination_passing_style,
        "binding": (spec.binding or "torch") if language == "cuda" else spec.binding,
        "dsl": dsl,
        "compile_options": spec.compile_options if language == "cuda" else None,
    }
    content = {
        "name": found.name,
        "definition": definition,
        "author": found.author,
        "spec": _made(BuildSpec, build, file, "spec"),
        "sources": [
            {"path": each.path, "content": each.content or _beside(each.path, file, root)}
            for each in found.sources
        ],
        "description": found.description,
    }
    return _made(Solution, content, file)


def _beside(path: str, file: Path, root: Path) -> str:
    """Read a source that the solution names without its content."""
    beside = path_inside(file.parent, path)
    if not beside.is_file():
        raise DatasetError(f"sources: {path!r} has no content, and there is no {beside}", path=file)
    require_inside(beside, root, "the folder that was named")
    return read_bytes(beside, DOCUMENT_BYTES).decode()


def _language(found: SolSolution, file: Path) -> tuple[str, str | None]:
    """Tell the language: one of the two groups decides; within a group, what is not plain torch."""
    named = list(dict.fromkeys(found.spec.languages))
    for each in named:
        if each not in LANGUAGES:
            known = ", ".join(LANGUAGES)
            raise DatasetError(f"spec.languages: {each!r} is not known ({known})", path=file)
    groups = {LANGUAGES[each][0] == "cuda" for each in named}
    entry = found.spec.entry_point.partition("::")[0]
    if len(groups) > 1:
        raise DatasetError(
            f"spec.languages: {', '.join(named)}: compiled code and Python do not mix", path=file
        )
    if groups and groups == {entry.endswith(".py")}:
        raise DatasetError(f"spec.entry_point: {entry!r} is no file in {named[0]}", path=file)
    ours = [LANGUAGES[each] for each in named if each != "pytorch"]
    by_entry = ("python", None) if entry.endswith(".py") else ("cuda", None)
    return next((each for each in ours if each[0] == "triton"), ours[0] if ours else by_entry)


def _made(cls: type[E], content: Any, file: Path, where: str = "") -> E:
    try:
        return cls.model_validate(content)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
    place = ".".join(filter(None, [where, *map(str, fault["loc"])]))
    message = str(fault["msg"]).removeprefix("Value error, ")
    raise DatasetError(f"{place}: {message}" if place else message, path=file)
