"""The pieces of a model as a dataset: definitions, workloads as seen, eager baselines, and a profile with counts."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors.torch import save

from flashinfer_bench.data import Definition, Profile, Trace
from flashinfer_bench.data.distributions import Integers, Normal
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
    WorkloadTolerance,
    uuid_of,
)
from flashinfer_bench.decompose.catalogue import FRAMEWORK
from flashinfer_bench.decompose.costs import node_cost
from flashinfer_bench.decompose.emit.constants import form_of
from flashinfer_bench.decompose.emit.cpu_workloads import CPU_BYTES, CPU_FLOPS, cpu_workload
from flashinfer_bench.decompose.emit.definitions import definition_of, unfit
from flashinfer_bench.decompose.emit.expert_loads import (
    OTHER_LOADS,
    ends_of_groups,
    experts_of,
    other_ends,
    routing,
)
from flashinfer_bench.decompose.emit.legal import legal_input
from flashinfer_bench.decompose.model_file import ModelFile, ModelSource
from flashinfer_bench.decompose.published import rounding_rtol

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from flashinfer_bench.data.distributions import Distribution
    from flashinfer_bench.decompose.emit.expert_loads import Load
    from flashinfer_bench.decompose.emit.legal import LegalInput
    from flashinfer_bench.decompose.ir import Level, Value
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
        _add(made, definition, [*seen, *_smaller(definition, seen)])
        if piece.node.is_leaf:
            uses += [_use(definition, each, seen) for each in seen if each.count]
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


def _use(definition: Definition, used: _PieceWorkload, seen: Sequence[_PieceWorkload]) -> KernelUse:
    """Count the calls at a workload's sizes; where others have the same sizes, the workload is named."""
    axes = used.workload.axes
    is_one_of_several = sum(each.workload.axes == axes for each in seen) > 1
    kernel = KernelReference(
        definition=definition.name,
        axes=axes,
        workload=used.workload.uuid if is_one_of_several else None,
    )
    return KernelUse(kernel=kernel, count=used.count)


def _json(text: str) -> bytes:
    return f"{text}\n".encode()


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
        sizes = tuple(_axes_of(pieces, piece, instance).values())
        by_sizes.setdefault(sizes, []).append(instance)
    return [
        workload
        for same in by_sizes.values()
        for workload in _with_other_loads(pieces, piece, same, folder)
    ]


def _with_other_loads(
    pieces: Pieces, piece: Piece, same: list[PieceInstance], folder: str
) -> list[_PieceWorkload]:
    """Give the workload as the model's run has it; of an expert's piece two more, all sizes the same."""
    seen = _Inputs(pieces, piece, same[0])
    recorded = _seen(seen, "recorded", len(same), folder)
    others = [_seen(seen, load, 0, folder) for load in OTHER_LOADS] if seen.has_experts else []
    own = recorded.workload.inputs
    different = [each for each in others if each.workload.inputs != own]
    return [recorded, *different]


@dataclass(frozen=True)
class _Inputs:
    """What the inputs of an occurrence of a piece are made of."""

    pieces: Pieces
    piece: Piece
    instance: PieceInstance

    @cached_property
    def made(self) -> Mapping[str, LegalInput]:
        """By name, what each is made of."""
        ops = frozenset(op.id for op in self.instance.form.ops)
        return {
            name: legal_input(self.pieces.trace, value, ops, self.pieces.own)
            for name, value in self.values.items()
        }

    @cached_property
    def values(self) -> Mapping[str, str]:
        """By name, the value it is."""
        return dict(zip(self.piece.parameters, self.instance.form.inputs, strict=True))

    @cached_property
    def kept(self) -> Mapping[str, torch.Tensor]:
        """Numbers that are stored, unless a distribution has their form."""
        trace = self.pieces.trace
        found = {
            name: _kept(made, trace.values[self.values[name]]) for name, made in self.made.items()
        }
        return {name: numbers for name, numbers in found.items() if numbers is not None}

    @cached_property
    def routed(self) -> Mapping[str, int]:
        """Inputs that say which experts each token goes to, with how many there are."""
        found = {
            name: experts_of(self.pieces.trace, self.values[name])
            for name, numbers in self.kept.items()
        }
        return {name: count for name, count in found.items() if count is not None}

    @cached_property
    def ends(self) -> frozenset[str]:
        """Inputs that say where each expert's rows end."""
        ends = ends_of_groups(self.instance.form.ops)
        return frozenset(name for name in self.kept if self.values[name] in ends)

    @property
    def has_experts(self) -> bool:
        """Whether how much each expert gets is among the inputs."""
        return bool(self.routed or self.ends)

    def declared(self, load: Load) -> dict[str, Distribution]:
        """Find integers whose form a distribution has; several that may depend on each other are stored."""
        if len(self.routed) == 1 and not self.ends:
            [(name, experts)] = self.routed.items()
            drawn = routing(self.kept[name], experts, load)
            return {} if drawn is None else {name: drawn}
        return _declared(self.made)

    def stored(self, load: Load) -> dict[str, torch.Tensor]:
        """Give the numbers that are stored, with another load where that is asked for."""
        found = dict(self.kept)
        if load != "recorded":
            found |= {name: other_ends(found[name], load) for name in self.ends}
        return found


def _seen(seen: _Inputs, load: Load, count: int, folder: str) -> _PieceWorkload:
    pieces, piece, instance = seen.pieces, seen.piece, seen.instance
    words = [] if load == "recorded" else [load]
    stem = "_".join([piece.id, *(f"{axis.size}" for axis in instance.form.axes), *words])
    path = f"{folder}/{stem}.safetensors"
    drawn = seen.declared(load)
    stored = {name: each for name, each in seen.stored(load).items() if name not in drawn}
    inputs: dict[str, InputSpec] = {}
    for name, made in seen.made.items():
        if name in stored:
            inputs[name] = SafetensorsInput(path=path, tensor_key=name)
        else:
            declared = drawn.get(name, made.distribution)
            is_plain = declared == Normal()
            inputs[name] = RandomInput(type="random", distribution=None if is_plain else declared)
    axes = _axes_of(pieces, piece, instance)
    workload = Workload(
        axes=axes,
        inputs=inputs,
        uuid=uuid_of(piece.id, axes, inputs),
        size_class=_size_class(pieces, instance),
        tolerance=_tolerance(pieces, piece),
    )
    return _PieceWorkload(workload, count, {path: save(stored)} if stored else {})


def _tolerance(pieces: Pieces, piece: Piece) -> WorkloadTolerance | None:
    """Let a published kernel round once where the model rounds several times, beyond what is tolerated anyway."""
    if piece.published is None:
        return None
    from flashinfer_bench.bench.run_settings import known_settings  # noqa: PLC0415  # where there is a dataset

    rtol = rounding_rtol(pieces.trace, piece.form)
    return WorkloadTolerance(rtol=rtol) if rtol > known_settings()["rtol"].default else None


def _smaller(definition: Definition, seen: list[_PieceWorkload]) -> Iterator[_PieceWorkload]:
    """Give the first workload that is not for a CPU one beside it that is; the model never runs it."""
    for each in seen:
        if each.workload.size_class == "full":
            smaller = cpu_workload(definition, each.workload)
            if smaller is not None:
                yield _PieceWorkload(smaller, 0, {})
                return


def _axes_of(pieces: Pieces, piece: Piece, instance: PieceInstance) -> dict[str, int]:
    """Give the sizes at which a piece occurs."""
    if piece.published is not None:
        rows = piece.published.count(pieces.trace, instance.form.inputs)
        return {piece.published.rows: rows}
    return {
        axis.name: found.size
        for axis, found in zip(piece.form.axes, instance.form.axes, strict=True)
    }


def _kept(made: LegalInput, value: Value) -> torch.Tensor | None:
    """Give the numbers that a workload stores; none where they are drawn."""
    if made.count is not None:
        return _counted(value.shape, made.count).to(getattr(torch, value.dtype))
    return None if made.stored is None else made.stored.contiguous().clone()


def _declared(made: Mapping[str, LegalInput]) -> dict[str, Distribution]:
    """Find integers whose form a distribution has; several that may depend on each other are stored."""
    integers = {
        name: each.stored
        for name, each in made.items()
        if each.stored is not None and isinstance(each.distribution, Integers)
    }
    if len(integers) != 1:
        return {}
    [(name, numbers)] = integers.items()
    form = form_of(numbers)
    return {} if form is None else {name: form}


def _size_class(pieces: Pieces, instance: PieceInstance) -> SizeClass | None:
    cost = node_cost(pieces.trace, instance.node)
    is_large = cost.flops > CPU_FLOPS or cost.bytes_moved > CPU_BYTES
    return "full" if is_large else None


def _counted(shape: tuple[int, ...], count: int) -> torch.Tensor:
    """A mask of which so many elements, drawn with a fixed seed, are true."""
    total = 1
    for size in shape:
        total *= size
    mask = torch.zeros(total, dtype=torch.bool)
    mask[torch.randperm(total, generator=torch.Generator().manual_seed(0))[:count]] = True
    return mask.reshape(shape)
