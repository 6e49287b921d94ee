"""The pieces of a model as a dataset: definitions, workloads as seen, eager baselines, and a profile with counts."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors.torch import save

from flashinfer_bench.data import Definition, Profile, Trace
from flashinfer_bench.data.distributions import Normal
from flashinfer_bench.data.files import lines_of
from flashinfer_bench.data.folders import folder_files
from flashinfer_bench.data.layout import Layout
from flashinfer_bench.data.profile import KernelReference, KernelUse
from flashinfer_bench.data.solution import BuildSpec, Solution, SourceFile, SupportedLanguages
from flashinfer_bench.data.workload import (
    InputSpec,
    RandomInput,
    SafetensorsInput,
    SizeClass,
    Workload,
    uuid_of,
)
from flashinfer_bench.decompose.catalogue import FRAMEWORK
from flashinfer_bench.decompose.costs import node_cost
from flashinfer_bench.decompose.emit.definitions import definition_of, unfit
from flashinfer_bench.decompose.emit.legal import legal_input
from flashinfer_bench.decompose.model_file import ModelFile, ModelSource

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from flashinfer_bench.decompose.ir import Level
    from flashinfer_bench.decompose.pieces import Piece, PieceInstance, Pieces


_UNFIT = re.compile(r"[^0-9A-Za-z._-]+")
_KERNELBENCH_LEVEL = re.compile(r"level[0-9]+")


@dataclass
class Dataset:
    """Files of a dataset by their path below its root, and what has no place in it."""

    files: dict[str, bytes] = field(default_factory=dict)
    definitions: list[str] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)


def dataset(source: ModelSource, pieces: Pieces, levels: Collection[Level]) -> Dataset:
    """Make a dataset of the pieces of some levels; the profile counts kernels only."""
    made = Dataset()
    tags = [f"source:{_origin(source)}", f"model:{pieces.trace.model}"]
    uses: list[KernelUse] = []
    for piece in pieces.all:
        if piece.node.level not in levels:
            continue
        reason = unfit(pieces, piece)
        if reason is not None:
            made.left_out.append((piece.id, reason))
            continue
        definition = definition_of(pieces, piece, tags)
        seen = _workloads_of(pieces, piece, _blob_folder(definition))
        _add(made, definition, seen)
        if piece.node.is_leaf:
            uses += [_use(definition, each) for each in seen]
    profile = Profile(model=pieces.trace.model, framework=FRAMEWORK, kernels=uses)
    file = f"profiles/{FRAMEWORK}/{_UNFIT.sub('_', pieces.trace.model)}.json"
    made.files[file] = _json(profile.to_json(indent=2))
    return made


def _origin(source: ModelSource) -> str:
    """Name where a model comes from, as KernelBench's folders do: `kernelbench/level3/11_VGG16`."""
    if not isinstance(source, ModelFile):
        return source.name
    path = source.path.resolve()
    if not _KERNELBENCH_LEVEL.fullmatch(path.parent.name):
        return path.stem
    return f"{path.parent.parent.name}/{path.parent.name}/{path.stem}".lstrip("/")


def _add(made: Dataset, definition: Definition, seen: list[_PieceWorkload]) -> None:
    layout = Layout(Path())
    solution = baseline(definition)
    folder = layout.solution_file(solution, definition.op_type).with_suffix("")
    lines = [Trace(definition=definition.name, workload=each.workload) for each in seen]
    made.definitions.append(definition.name)
    made.files[str(layout.definition_file(definition))] = _json(definition.to_json(indent=2))
    made.files[str(layout.workload_file(definition))] = lines_of(lines)
    for path, content in folder_files(solution).items():
        made.files[f"{folder}/{path}"] = content
    for each in seen:
        made.files.update(each.blobs)


def baseline(definition: Definition) -> Solution:
    """Make the eager baseline of a definition: the reference, run as it is."""
    return Solution(
        name=f"{definition.name}_baseline",
        definition=definition.name,
        author="baseline",
        description="PyTorch, eagerly, as the model runs it.",
        spec=BuildSpec(
            language=SupportedLanguages.PYTHON,
            target_hardware=["cpu", "cuda"],
            entry_point="main.py::run",
            dependencies=["torch"],
            destination_passing_style=False,
        ),
        sources=[SourceFile(path="main.py", content=definition.reference)],
    )


def _blob_folder(definition: Definition) -> str:
    return str(Layout(Path()).blob_workloads / definition.op_type / definition.name)


def _use(definition: Definition, seen: _PieceWorkload) -> KernelUse:
    kernel = KernelReference(definition=definition.name, axes=seen.workload.axes)
    return KernelUse(kernel=kernel, count=seen.count)


def _json(text: str) -> bytes:
    return f"{text}\n".encode()


_LAPTOP_FLOPS = 20e9
_LAPTOP_BYTES = 1e9
"""Above either a workload is not for a laptop's CPU."""


@dataclass(frozen=True)
class _PieceWorkload:
    """A workload, the tensors it needs, and how often it occurs in the model."""

    workload: Workload
    count: int
    blobs: Mapping[str, bytes]


def _workloads_of(pieces: Pieces, piece: Piece, folder: str) -> list[_PieceWorkload]:
    """Make a workload for each set of sizes at which a piece occurs; blobs go into a folder."""
    by_sizes: dict[tuple[int, ...], list[PieceInstance]] = {}
    for instance in piece.instances:
        sizes = tuple(axis.size for axis in instance.form.axes)
        by_sizes.setdefault(sizes, []).append(instance)
    return [_seen(pieces, piece, same, folder) for same in by_sizes.values()]


def _seen(pieces: Pieces, piece: Piece, same: list[PieceInstance], folder: str) -> _PieceWorkload:
    instance = same[0]
    ops = frozenset(op.id for op in instance.form.ops)
    stem = "_".join([piece.id, *(f"{axis.size}" for axis in instance.form.axes)])
    path = f"{folder}/{stem}.safetensors"
    inputs: dict[str, InputSpec] = {}
    stored: dict[str, torch.Tensor] = {}
    for name, value in zip(piece.parameters, instance.form.inputs, strict=True):
        chosen = legal_input(pieces.trace, value, ops)
        if chosen.count is not None:
            stored[name] = _counted(pieces.trace.values[value].shape, chosen.count)
            inputs[name] = SafetensorsInput(path=path, tensor_key=name)
        else:
            is_plain = chosen.distribution == Normal()
            declared = None if is_plain else chosen.distribution
            inputs[name] = RandomInput(type="random", distribution=declared)
    axes = {
        axis.name: found.size
        for axis, found in zip(piece.form.axes, instance.form.axes, strict=True)
    }
    workload = Workload(
        axes=axes,
        inputs=inputs,
        uuid=uuid_of(piece.id, axes, inputs),
        size_class=_size_class(pieces, instance),
    )
    return _PieceWorkload(workload, len(same), {path: save(stored)} if stored else {})


def _size_class(pieces: Pieces, instance: PieceInstance) -> SizeClass | None:
    cost = node_cost(pieces.trace, instance.node)
    is_large = cost.flops > _LAPTOP_FLOPS or cost.bytes_moved > _LAPTOP_BYTES
    return "full" if is_large else None


def _counted(shape: tuple[int, ...], count: int) -> torch.Tensor:
    """A mask of which so many elements, drawn with a fixed seed, are true."""
    total = 1
    for size in shape:
        total *= size
    mask = torch.zeros(total, dtype=torch.bool)
    mask[torch.randperm(total, generator=torch.Generator().manual_seed(0))[:count]] = True
    return mask.reshape(shape)
