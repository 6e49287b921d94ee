"""Definitions of a decomposition's dataset: they run at the sizes of their workloads and compute what nodes do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from flashinfer_bench.decompose.capture.recurrent import RecurrentByShape
from flashinfer_bench.decompose.verify.files import NodeFile, attempt, tensors
from flashinfer_bench.decompose.verify.findings import StageResult, Violation, joined
from flashinfer_bench.decompose.verify.rules import found
from flashinfer_bench.decompose.verify.wrong_kernels import WrongKernels
from flashinfer_bench.errors import DatasetError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from flashinfer_bench.data import Definition, TraceSet, Workload
    from flashinfer_bench.decompose.verify.layout import DecompositionFolder

_FOLDER = "dataset"


def check_definitions(
    layout: DecompositionFolder, *, may_change: bool = False, tries_wrong: bool = True
) -> tuple[StageResult, list[NodeFile]]:
    """Run every definition on meta; those that are called like a node are to be compared with it.

    `may_change`: workloads on which a wrong kernel passes are written anew. `tries_wrong`: whether any is run.
    """
    folder = layout.folder / _FOLDER
    if not folder.is_dir():
        return StageResult(), []
    from flashinfer_bench.data import TraceSet  # noqa: PLC0415  # pydantic; only where there is a dataset

    try:
        dataset = TraceSet.from_path(folder)
        definitions = dict(dataset.definitions)
    except DatasetError as error:
        return StageResult((found("FILE-definition", _FOLDER, str(error)),)), []
    results: list[StageResult] = []
    wrong = WrongKernels([str(dataset.root)], may_change=may_change)
    steps: list[NodeFile] = []
    for name, definition in definitions.items():
        label = f"{_FOLDER}: {name}"
        module = attempt(
            lambda each=definition: _module(each),  # type: ignore[misc]
            folder, label, "FILE-definition", name,
        )  # fmt: skip
        if isinstance(module, Violation):
            results.append(StageResult((module,)))
            continue
        sized = _check_sizes(definition, module.run, dataset, label)
        if name in layout.nodes:
            sized = replace(sized, notes=())  # its values are compared
            steps.append(NodeFile(layout.nodes[name], folder, module, label))
        results.append(sized)
        if tries_wrong and not sized.findings:
            results.append(_weak(definition, module.run, dataset, wrong))
    return joined(*results, wrong.result), steps


def _weak(
    definition: Definition, run: Callable[..., Any], dataset: TraceSet, wrong: WrongKernels
) -> StageResult:
    """Find the workloads on which a wrong kernel passes; those that were changed are written."""
    given = [trace.workload for trace in dataset.workloads.get(definition.name, [])]
    has_smaller = any(workload.size_class == "small" for workload in given)
    tried = [wrong.tried(definition, each, run, has_smaller=has_smaller) for each in given]
    workloads = [workload for workload, _ in tried]
    if workloads != given:
        _rewrite(dataset, definition, workloads)
    return StageResult(tuple(violation for _, violations in tried for violation in violations))


def _rewrite(dataset: TraceSet, definition: Definition, workloads: Sequence[Workload]) -> None:
    from flashinfer_bench.data import Trace  # noqa: PLC0415  # pydantic; only where there is a dataset
    from flashinfer_bench.data.files import lines_of, write_whole  # noqa: PLC0415
    from flashinfer_bench.data.layout import Layout  # noqa: PLC0415

    lines = [Trace(definition=definition.name, workload=workload) for workload in workloads]
    write_whole(Layout(Path(dataset.roots[0])).workload_file(definition), lines_of(lines))


def _module(definition: Definition) -> ModuleType:
    module = ModuleType(f"_definition_{definition.name}")
    exec(compile(definition.reference, f"{definition.name}.py", "exec"), vars(module))  # noqa: S102  # what it is for

    class DefinitionModel(nn.Module):
        def forward(self, *inputs: Any) -> Any:
            return module.run(*inputs)

    vars(module).update(Model=DefinitionModel, get_init_inputs=list)
    return module


def _check_sizes(
    definition: Definition, run: Callable[..., Any], dataset: TraceSet, label: str
) -> StageResult:
    findings: list[Violation] = []
    for trace in dataset.workloads.get(definition.name, []):
        axes = trace.workload.axes
        inputs = _inputs(definition, axes)
        try:
            with torch.no_grad(), RecurrentByShape():
                outs = tensors(run(*inputs))
        except (NotImplementedError, RuntimeError) as error:
            note = f"{label}: not run on meta: {' '.join(str(error).split())[:160]}"
            return StageResult(tuple(findings), (note,))
        got = [list(each.shape) for each in outs]
        declared = [each or [] for each in definition.get_output_shapes(axes)]
        if got != declared:
            said = f"with {_words(axes)} its outputs have the shapes {got}; it declares {declared}"
            findings.append(found("FILE-definition", label, said, node=definition.name))
        dtypes = [each.dtype for each in outs]
        if dtypes != definition.torch_output_dtypes:
            said = f"its outputs are {dtypes}; it declares {definition.torch_output_dtypes}"
            findings.append(found("FILE-definition", label, said, node=definition.name))
    return StageResult(tuple(findings))


def _inputs(definition: Definition, axes: Mapping[str, int]) -> Sequence[Any]:
    shapes, dtypes = definition.get_input_shapes(axes), definition.torch_input_dtypes
    return [
        torch.empty(shape or (), dtype=dtype, device="meta")
        for shape, dtype in zip(shapes, dtypes, strict=True)
    ]


def _words(axes: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {size}" for name, size in axes.items())
