"""A solution as a package whose operator is registered with `torch.library`; `export solution` writes it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from flashinfer_bench.cli.dataset.skeletons import templates
from flashinfer_bench.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from flashinfer_bench.data import Definition, Solution, TraceSet
    from flashinfer_bench.data.shapes import TensorSpec

_NAMESPACE = "fib"
_IN_PYTHON = ("python", "triton", "tilelang")
_SCALARS = {"bool": "bool", "float": "float", "bfloat": "float"}
_PROJECT = """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "{project}"
version = "0.1.0"
description = "The operator torch.ops.{namespace}.{operator}"
requires-python = ">=3.11"
dependencies = {dependencies}

[tool.setuptools.packages.find]
where = ["src"]
"""


def files_of(trace_set: TraceSet, solution: Solution) -> dict[str, str]:
    """Write a package's files; raises `UsageError` for a solution that cannot be one."""
    definition = trace_set.definitions[solution.definition]
    _require_exportable(solution)
    measured = _measured(trace_set, solution)
    operator = re.sub(r"\W", "_", definition.name)
    package = f"{_NAMESPACE}_{operator}"
    source = (
        templates()
        .get_template("torch_op.jinja")
        .render(
            about=definition.name,
            namespace=_NAMESPACE,
            operator=operator,
            package=package,
            solution=solution.name,
            entry=solution.spec.entry_point.rpartition("::")[2],
            is_passed_outputs=solution.spec.destination_passing_style,
            measured=measured,
            **_words(definition),
        )
    )
    names = dict.fromkeys(
        ["torch>=2.8", *(_requirement(each) for each in solution.spec.dependencies)]
    )
    project = _PROJECT.format(
        project=package.replace("_", "-"),
        namespace=_NAMESPACE,
        operator=operator,
        dependencies=json.dumps([each for each in names if each != "torch"]),
    )
    folder = f"src/{package}"
    return {
        "pyproject.toml": project,
        f"{folder}/__init__.py": source,
        f"{folder}/kernel.py": solution.sources[0].content,
        f"{folder}/original.py": definition.reference,
    }


def _require_exportable(solution: Solution) -> None:
    why = None
    if solution.spec.language not in _IN_PYTHON:
        why = f"is in {solution.spec.language}: only {', '.join(_IN_PYTHON)} can be exported so far"
    elif len(solution.sources) != 1:
        why = "has several source files: put them into one"
    elif solution.spec.prepare is not None or solution.spec.plan is not None:
        why = "has prepare or plan: an operator has no state"
    if why is not None:
        raise UsageError(f"{solution.name} {why}")


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


def write(trace_set: TraceSet, solution: Solution, output: Path) -> None:
    """Write the package once torch's own check of operators has passed; raises `UsageError` if it does not."""
    files = files_of(trace_set, solution)
    with tempfile.TemporaryDirectory(prefix="fib-export-") as folder:
        draft = Path(folder) / "package"
        for name, content in files.items():
            (draft / name).parent.mkdir(parents=True, exist_ok=True)
            (draft / name).write_text(content, encoding="utf-8")
        _check(trace_set, solution, draft)
        for left in draft.rglob("__pycache__"):
            shutil.rmtree(left)
        shutil.copytree(draft, output, dirs_exist_ok=True)


def _check(trace_set: TraceSet, solution: Solution, draft: Path) -> None:
    """Have `torch.library.opcheck` try the operator, in a process of its own, on a workload's inputs."""
    assert trace_set.root is not None
    package = next((draft / "src").iterdir()).name
    words = [str(trace_set.root), solution.definition, package]
    done = subprocess.run(
        [sys.executable, "-c", _CHECK, *words],
        cwd=draft / "src",
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise UsageError(f"{solution.name}: torch refuses it as an operator: {_last(done.stderr)}")


def _last(lines: str) -> str:
    return next((each for each in reversed(lines.splitlines()) if each.strip()), "no message")


_CHECK = """
import importlib, sys
sys.path.insert(0, ".")
import torch
from flashinfer_bench.data import TraceSet
from flashinfer_bench.tensors.generate import InputMaker
from flashinfer_bench.tensors.planned import plan_inputs

root, name, package = sys.argv[1:]
torch.manual_seed(0)
trace_set = TraceSet.from_path(root)
definition = trace_set.definitions[name]
operator = importlib.import_module(package)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
tests = ["test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic"]
if (definition.judge or definition.op_type) == "sampling":
    tests.pop()  # which compares two calls, and these draw
workload = min((each.workload for each in trace_set.workloads[name]), key=lambda each: sum(each.axes.values()))
files = {
    key: trace_set.get_workload_blob_tensor(source.path)[source.tensor_key]
    for key, source in workload.inputs.items()
    if source.type == "safetensors"
}
maker = InputMaker(plan_inputs(definition, workload), device, files=files)
maker.open_trial(1)
inputs = tuple(maker.prepare(1, 1)[0])
size = tuple(length for _, length in sorted(definition.get_axes_values_from_inputs(inputs).items()))
for measured in ({}, {operator._name(device): {size}}):  # both the original and the kernel
    operator.MEASURED.clear()
    operator.MEASURED.update(measured)
    torch.library.opcheck(operator.run, inputs, test_utils=tests)
assert all(operator.CALLS[each] for each in ("kernel", "original")), operator.CALLS
"""
