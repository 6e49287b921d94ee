"""What `export solution` writes: a solution's operator as a package for torch, for vLLM, or for `kernels`.

Each form is the operator of `torch_operator` and what a program needs to find it.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from flashinfer_bench.cli.dataset.skeletons import templates
from flashinfer_bench.cli.dataset.torch_operator import operator_of
from flashinfer_bench.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flashinfer_bench.cli.dataset.torch_operator import Operator
    from flashinfer_bench.data import Definition, Solution, TraceSet

FORMS = ("torch-op", "vllm", "hf-kernels")
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
{entry_points}
[tool.setuptools.packages.find]
where = ["src"]

[tool.setuptools.package-data]
"*" = ["native/**"]
"""
_VLLM_LAYERS = {
    "fused_add_rmsnorm": ("vllm.model_executor.layers.layernorm", "RMSNorm"),
    "rmsnorm": ("vllm.model_executor.layers.layernorm", "RMSNorm"),
    "silu_and_mul": ("vllm.model_executor.layers.activation", "SiluAndMul"),
}
"""Layers of vLLM that an operator of an op type can take the place of."""
_HF_LAYERS = {"rmsnorm": "RMSNorm", "silu_and_mul": "SiluAndMul"}
"""Layers as other programs name them; others are called after their op type."""
_HF_REQUIREMENTS = {"apache-tvm-ffi": "tvm-ffi", "einops": "einops"}
"""What `kernels` lets a kernel require beside torch, by its name in PyPI."""
_WITH_TORCH = frozenset({"torch", "triton", "ninja"})
"""Those that torch brings, and ninja, which tvm-ffi asks for itself."""


@dataclass(frozen=True, slots=True)
class ExportedPackage:
    """Files to write, and the folder among them that Python imports."""

    files: Mapping[str, str]
    folder: str


def write(trace_set: TraceSet, solution: Solution, form: str, output: Path) -> str:
    """Write the package once torch's own check of operators has passed; say how a program gets it.

    Raises `UsageError` for a solution that cannot be one.
    """
    definition = trace_set.definitions[solution.definition]
    if form == "hf-kernels":
        made = _hf_kernels(trace_set, solution, definition)
        usage = f"LocalLayerRepository(Path({str(output)!r}), layer_name={_hf_layer(definition)!r})"
    else:
        made = _installed(operator_of(trace_set, solution), definition, is_plugin=form == "vllm")
        usage = f"pip install {output}"
    with tempfile.TemporaryDirectory(prefix="fib-export-") as folder:
        draft = Path(folder) / "package"
        for name, content in made.files.items():
            (draft / name).parent.mkdir(parents=True, exist_ok=True)
            (draft / name).write_text(content, encoding="utf-8")
        _check(trace_set, solution, draft / made.folder)
        for left in draft.rglob("__pycache__"):
            shutil.rmtree(left)
        shutil.copytree(draft, output, dirs_exist_ok=True)
    return usage


def _installed(operator: Operator, definition: Definition, *, is_plugin: bool) -> ExportedPackage:
    """Give a package for pip; with a plugin that vLLM finds by its entry point."""
    folder = f"src/{operator.package}"
    files = {f"{folder}/{name}": source for name, source in operator.modules.items()}
    entry_points = ""
    if is_plugin:
        if definition.op_type not in _VLLM_LAYERS:
            known = ", ".join(sorted(_VLLM_LAYERS))
            raise UsageError(
                f"{definition.name} is of op type {definition.op_type}: layers of vLLM are known of {known}; "
                "--as torch-op writes the operator alone"
            )
        module, layer = _VLLM_LAYERS[definition.op_type]
        files[f"{folder}/vllm_plugin.py"] = _rendered(
            "vllm_plugin.jinja", definition, module=module, layer=layer, package=operator.package
        )
        target = f"{operator.package}.vllm_plugin:register"
        entry_points = (
            f'\n[project.entry-points."vllm.general_plugins"]\n{operator.package} = "{target}"\n'
        )
    files["pyproject.toml"] = _PROJECT.format(
        project=operator.package.replace("_", "-"),
        namespace=operator.namespace,
        operator=operator.name,
        dependencies=json.dumps(operator.requirements),
        entry_points=entry_points,
    )
    return ExportedPackage(files, folder)


def _hf_kernels(trace_set: TraceSet, solution: Solution, definition: Definition) -> ExportedPackage:
    """Give a kernel repository of `kernels`: a build for each kind of device, with what its loader reads."""
    operator = operator_of(trace_set, solution, is_alone=False, has_layers=True)
    layers = _rendered(
        "hf_layers.jinja",
        definition,
        layer=_hf_layer(definition),
        names=", ".join(definition.inputs),
    )
    kinds = sorted({"cpu" if each == "cpu" else "cuda" for each in operator.devices})
    files: dict[str, str] = {}
    for kind in kinds:
        metadata = {
            "id": f"{operator.namespace}_{kind}",
            "name": operator.package.replace("_", "-"),
            "version": 1,
            "license": "other",
            "python-depends": _hf_requirements(solution, operator),
            "backend": {"type": kind},
        }
        modules = {
            **operator.modules,
            "layers.py": layers,
            "metadata.json": json.dumps(metadata, indent=2) + "\n",
        }
        files |= {f"build/torch-{kind}/{name}": source for name, source in modules.items()}
    return ExportedPackage(files, f"build/torch-{kinds[0]}")


def _hf_layer(definition: Definition) -> str:
    named = "".join(each.capitalize() for each in re.split(r"\W|_", definition.op_type))
    return _HF_LAYERS.get(definition.op_type, named)


def _hf_requirements(solution: Solution, operator: Operator) -> list[str]:
    names = [re.split(r"\W*[<>=~!]", each)[0] for each in operator.requirements]
    wanted = [each for each in names if each not in _WITH_TORCH]
    unknown = [each for each in wanted if each not in _HF_REQUIREMENTS]
    if unknown:
        known = ", ".join(_HF_REQUIREMENTS)
        raise UsageError(
            f"{solution.name} needs {', '.join(unknown)}: `kernels` allows {known} beside torch; "
            "--as torch-op names it as a requirement"
        )
    return [_HF_REQUIREMENTS[each] for each in wanted]


def _rendered(template: str, definition: Definition, **words: object) -> str:
    from flashinfer_bench.intercept.catalogue import said_of  # noqa: PLC0415  # pydantic

    said = said_of(definition, "eps")
    epsilons = tuple(sorted(each for each in said if isinstance(each, int | float)))
    return (
        templates()
        .get_template(template)
        .render(about=definition.name, op_type=definition.op_type, epsilons=repr(epsilons), **words)
    )


def _check(trace_set: TraceSet, solution: Solution, folder: Path) -> None:
    """Have `torch.library.opcheck` try the operator, in a process of its own, on a workload's inputs."""
    assert trace_set.root is not None
    done = subprocess.run(
        [sys.executable, "-c", _CHECK, str(trace_set.root), solution.definition, str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise UsageError(f"{solution.name}: torch refuses it as an operator: {_last(done.stderr)}")


def _last(lines: str) -> str:
    return next((each for each in reversed(lines.splitlines()) if each.strip()), "no message")


_CHECK = """
import importlib.util, sys
import torch
from flashinfer_bench.data import TraceSet
from flashinfer_bench.tensors.generate import InputMaker
from flashinfer_bench.tensors.planned import plan_inputs

root, name, folder = sys.argv[1:]
torch.manual_seed(0)
trace_set = TraceSet.from_path(root)
definition = trace_set.definitions[name]
found = importlib.util.spec_from_file_location("fib_exported", folder + "/__init__.py")
operator = sys.modules["fib_exported"] = importlib.util.module_from_spec(found)
found.loader.exec_module(operator)
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
