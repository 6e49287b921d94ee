"""Definitions of a decomposition's dataset: they run at the sizes of their workloads and compute what nodes do."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from flashinfer_bench.decompose.verify.files import NodeFile, attempt, tensors
from flashinfer_bench.decompose.verify.findings import Violation
from flashinfer_bench.decompose.verify.rules import found
from flashinfer_bench.errors import DatasetError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from flashinfer_bench.data import Definition, TraceSet
    from flashinfer_bench.decompose.verify.layout import DecompositionFolder

_FOLDER = "dataset"


def check_definitions(
    layout: DecompositionFolder, steps: dict[str, list[NodeFile]], notes: list[str]
) -> Iterator[Violation]:
    """Run every definition on meta; those that are called like a node are added to what is compared with it."""
    folder = layout.folder / _FOLDER
    if not folder.is_dir():
        return
    from flashinfer_bench.data import TraceSet  # noqa: PLC0415  # pydantic; only where there is a dataset

    try:
        dataset = TraceSet.from_path(folder)
        definitions = dict(dataset.definitions)
    except DatasetError as error:
        yield found("FILE-definition", _FOLDER, str(error))
        return
    for name, definition in definitions.items():
        label = f"{_FOLDER}: {name}"
        module = attempt(
            lambda each=definition: _module(each),  # type: ignore[misc]
            folder, label, "FILE-definition", name,
        )  # fmt: skip
        if isinstance(module, Violation):
            yield module
            continue
        aside: list[str] = []
        yield from _size_faults(definition, module.run, dataset, label, aside)
        if name not in layout.nodes:
            notes += aside  # otherwise its values are compared
        else:
            step = NodeFile(layout.nodes[name], folder, module, label)
            steps.setdefault(name, []).append(step)


def _module(definition: Definition) -> ModuleType:
    module = ModuleType(f"_definition_{definition.name}")
    exec(compile(definition.reference, f"{definition.name}.py", "exec"), vars(module))  # noqa: S102  # what it is for

    class DefinitionModel(nn.Module):
        def forward(self, *inputs: Any) -> Any:
            return module.run(*inputs)

    vars(module).update(Model=DefinitionModel, get_init_inputs=list)
    return module


def _size_faults(
    definition: Definition,
    run: Callable[..., Any],
    dataset: TraceSet,
    label: str,
    notes: list[str],
) -> Iterator[Violation]:
    for trace in dataset.workloads.get(definition.name, []):
        axes = trace.workload.axes
        inputs = _inputs(definition, axes)
        try:
            with torch.no_grad():
                outs = tensors(run(*inputs))
        except (NotImplementedError, RuntimeError) as error:
            notes.append(f"{label}: not run on meta: {' '.join(str(error).split())[:160]}")
            return
        got = [list(each.shape) for each in outs]
        declared = [each or [] for each in definition.get_output_shapes(axes)]
        if got != declared:
            said = f"with {_words(axes)} its outputs have the shapes {got}; it declares {declared}"
            yield found("FILE-definition", label, said, node=definition.name)
        dtypes = [each.dtype for each in outs]
        if dtypes != definition.torch_output_dtypes:
            said = f"its outputs are {dtypes}; it declares {definition.torch_output_dtypes}"
            yield found("FILE-definition", label, said, node=definition.name)


def _inputs(definition: Definition, axes: Mapping[str, int]) -> Sequence[Any]:
    shapes, dtypes = definition.get_input_shapes(axes), definition.torch_input_dtypes
    return [
        torch.empty(shape or (), dtype=dtype, device="meta")
        for shape, dtype in zip(shapes, dtypes, strict=True)
    ]


def _words(axes: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {size}" for name, size in axes.items())
