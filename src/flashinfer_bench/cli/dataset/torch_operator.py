"""A solution as an operator registered with `torch.library`: the modules of a package, its fake from the definition."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashinfer_bench.cli.dataset.skeletons import templates
from flashinfer_bench.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from flashinfer_bench.data import Definition, Solution, TraceSet
    from flashinfer_bench.data.shapes import TensorSpec

NAMESPACE = "fib"
_IN_PYTHON = ("python", "triton", "tilelang")
_SCALARS = {"bool": "bool", "float": "float", "bfloat": "float"}


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator's names, and the modules of its package."""

    package: str
    name: str
    namespace: str
    requirements: tuple[str, ...]
    devices: tuple[str, ...]
    """`cpu` and names of GPUs: where it was measured."""
    modules: Mapping[str, str]
    """Sources by path in the package's folder."""


def operator_of(
    trace_set: TraceSet, solution: Solution, *, is_alone: bool = True, has_layers: bool = False
) -> Operator:
    """Write a package's modules; raises `UsageError` for a solution that cannot be an operator.

    One that is not alone gets a namespace of its own: several versions can be loaded beside each other. With layers,
    the package imports its module `layers`.
    """
    definition = trace_set.definitions[solution.definition]
    _require_exportable(solution)
    _require_no_autograd(definition, solution)
    measured = _measured(trace_set, solution)
    name = re.sub(r"\W", "_", definition.name)
    package = f"{NAMESPACE}_{name}"
    digest = solution.hash().rpartition("-")[2][:12]
    namespace = NAMESPACE if is_alone else f"{package}_{digest}"
    entry = solution.spec.entry_point.rpartition("::")[2]
    source = (
        templates()
        .get_template("torch_op.jinja")
        .render(
            about=definition.name,
            namespace=namespace,
            operator=name,
            solution=solution.name,
            entry=entry,
            is_passed_outputs=solution.spec.destination_passing_style,
            has_layers=has_layers,
            measured=measured,
            **_words(definition),
        )
    )
    kernel = _native(solution, entry) if solution.spec.language == "cpp" else _in_python(solution)
    wanted = ["torch>=2.8", *(_requirement(each) for each in solution.spec.dependencies)]
    if solution.spec.language == "cpp":
        wanted += ["apache-tvm-ffi>=0.1.2", "ninja>=1.11"]
    return Operator(
        package=package,
        name=name,
        namespace=namespace,
        requirements=tuple(dict.fromkeys(each for each in wanted if each != "torch")),
        devices=tuple(measured),
        modules={"__init__.py": source, **kernel, "original.py": definition.reference},
    )


def _require_exportable(solution: Solution) -> None:
    spec, why = solution.spec, None
    is_native = spec.language == "cpp" and spec.effective_binding == "tvm-ffi"
    if not is_native and spec.language not in _IN_PYTHON:
        bound = f" with the binding {spec.effective_binding}" if spec.language == "cpp" else ""
        known = f"{', '.join(_IN_PYTHON)} and cpp with tvm-ffi"
        why = f"is in {spec.language}{bound}: only {known} can be exported so far"
    elif is_native and spec.dependencies:
        why = f"is linked with {', '.join(spec.dependencies)}: such C++ cannot be exported so far"
    elif not is_native and len(solution.sources) != 1:
        why = "has several source files: put them into one"
    elif spec.prepare is not None or spec.plan is not None:
        why = "has prepare or plan: an operator has no state"
    if why is not None:
        raise UsageError(f"{solution.name} {why}")


def _require_no_autograd(definition: Definition, solution: Solution) -> None:
    """Refuse what differentiates: below an operator torch records nothing, and `torch.autograd.grad` raises."""
    if solution.spec.language in _IN_PYTHON and _differentiates(solution.sources[0].content):
        raise UsageError(
            f"{solution.name} runs torch.autograd, which does not work inside an operator: "
            "export a solution that computes its gradients in closed form"
        )
    if _differentiates(definition.reference):
        raise UsageError(
            f"{definition.name} cannot be an operator: its reference, which answers at sizes that were not measured, "
            "runs torch.autograd, and that does not work inside one; "
            "give the definition a reference that computes the gradients in closed form"
        )


def _differentiates(source: str) -> bool:
    from flashinfer_bench.data.rules.python_source import torch_names  # noqa: PLC0415

    return any(each.dotted in _DIFFERENTIATING for each in torch_names(source))


_DIFFERENTIATING = {"torch.autograd.grad", "torch.autograd.backward"}


def _in_python(solution: Solution) -> dict[str, str]:
    return {"kernel.py": solution.sources[0].content}


def _native(solution: Solution, entry: str) -> dict[str, str]:
    """Give C++ as it is, and a module that has it compiled by tvm-ffi."""
    sources = {each.path: each.content for each in solution.sources}
    flags = ["-std=c++17", "-O3", "-march=native", "-fopenmp"]  # as `run` compiles it
    kernel = (
        templates()
        .get_template("native_kernel.jinja")
        .render(
            name=re.sub(r"\W", "_", solution.name),
            sources=repr(sorted(each for each in sources if each.endswith(_COMPILED))),
            cflags=repr(flags),
            ldflags=repr(["-fopenmp"]),
            entry=entry,
        )
    )
    return {"kernel.py": kernel, **{f"native/{path}": text for path, text in sources.items()}}


_COMPILED = (".cpp", ".cc", ".cxx", ".c")


def _requirement(dependency: str) -> str:
    return dependency.partition(" ")[0]


def _measured(trace_set: TraceSet, solution: Solution) -> dict[str, str]:
    """Give the sizes that a solution wins, by device."""
    from flashinfer_bench.apply.config import ApplyConfig  # noqa: PLC0415  # pydantic
    from flashinfer_bench.apply.table import tables_of  # noqa: PLC0415

    found: dict[str, str] = {}
    for hardware, table in tables_of(trace_set, solution.definition, ApplyConfig()).items():
        sizes = [
            tuple(length for _, length in key.axes)
            for key, winner in table.winners.items()
            if winner.solution == solution.name
        ]
        if sizes:
            found["cpu" if not hardware.startswith("NVIDIA") else hardware] = repr(set(sizes))
    if not found:
        raise UsageError(
            f"{solution.name} is the best at no size of {solution.definition} in this dataset: "
            "`flashinfer-bench run` measures it, `report best` names who is"
        )
    return found


def _words(definition: Definition) -> Mapping[str, object]:
    """Say a definition's axes and tensors in Python."""
    outputs = list(definition.outputs.values())
    single = "torch.Tensor"
    axes = sorted(definition.var_axes)
    places = _places(definition)
    is_single = len(outputs) == 1
    return {
        "axes": ", ".join(axes) or "one size",
        "mutated": repr(tuple(definition.mutated_inputs)),
        "signature": ", ".join(
            f"{name}: {_type(spec)}" for name, spec in definition.inputs.items()
        ),
        "returns": single if is_single else f"tuple[{', '.join(single for _ in outputs)}]",
        "names": ", ".join(definition.inputs),
        "first": next(name for name, spec in definition.inputs.items() if spec.shape is not None),
        "lengths": "".join(f"{places[each]}, " for each in axes),
        "conditions": list(_conditions(definition, places)),
        "contiguous": " and ".join(
            f"{name}.is_contiguous()" for name, spec in definition.inputs.items() if spec.shape
        ),
        "is_single": is_single,
        "axis_lines": list(_axis_lines(definition, places)),
        "outputs": [
            ("".join(f"{each}, " for each in spec.shape or ()), spec.dtype) for spec in outputs
        ],
    }


def _places(definition: Definition) -> dict[str, str]:
    """Say of each variable axis which length of which input it is."""
    return {
        axis: f"{name}.shape[{at}]"
        for name, spec in reversed(definition.inputs.items())
        for at, axis in enumerate(spec.shape or ())
    }


def _conditions(definition: Definition, places: Mapping[str, str]) -> Iterator[str]:
    """Say in Python what of inputs must be as declared: dtypes, ranks, sizes that are fixed or the same."""
    for name, spec in definition.inputs.items():
        if spec.shape is None:
            continue
        yield f"{name}.dtype == torch.{spec.dtype} and {name}.dim() == {len(spec.shape)}"
        for at, axis in enumerate(spec.shape):
            declared, place = definition.axes[axis], f"{name}.shape[{at}]"
            if declared.type == "const":
                yield f"{place} == {declared.value}"
            elif declared.type == "var" and place != places[axis]:
                yield f"{place} == {places[axis]}"


def _axis_lines(definition: Definition, places: Mapping[str, str]) -> Iterator[str]:
    for name, axis in definition.axes.items():
        if axis.type == "const":
            yield f"{name} = {axis.value}"
        elif axis.type == "var":
            yield f"{name} = {places[name]}"
    for name, axis in definition.axes.items():
        if axis.type == "expr":
            yield f"{name} = {axis.expression}"


def _type(spec: TensorSpec) -> str:
    if spec.shape is not None:
        return "torch.Tensor"
    return _SCALARS.get(re.sub(r"\d.*", "", spec.dtype), "int")
