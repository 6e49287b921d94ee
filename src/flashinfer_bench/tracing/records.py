"""A traced call as it lies on disk: a line, a file of tensors; and which of them are there already."""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
from safetensors.torch import save

from flashinfer_bench.data import (
    WORKLOAD_NAMESPACE,
    InputSpec,
    RandomInput,
    SafetensorsInput,
    ScalarInput,
    Trace,
    Workload,
)
from flashinfer_bench.data.workload import uuid_of
from flashinfer_bench.tensors.statistics import statistics_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import torch

    from flashinfer_bench.data import Definition
    from flashinfer_bench.data.layout import Layout
    from flashinfer_bench.data.workload import InputStatistics


@dataclass(frozen=True, slots=True)
class WorkloadEntry:
    """The sizes of a call, its scalars, and copies of the inputs that are written down."""

    def_name: str
    """Name of the definition."""
    axes: Mapping[str, int]
    """Lengths of the variable axes."""
    inputs_to_dump: Mapping[str, Any] = field(default_factory=dict)
    """Tensors by input name, on the CPU, nobody else's."""
    order: int = 0
    """Counts the entries of a runtime."""
    cuda_graph_snapshot: Any = None
    """Always None: calls under CUDA-graph capture are left out."""
    scalars: Mapping[str, bool | int | float] = field(default_factory=dict)
    """Values of the inputs without a shape."""
    floats: Mapping[str, torch.Tensor] = field(default_factory=dict)
    """Elements of the floats that are not written down."""

    @property
    def nbytes(self) -> int:
        """Memory its tensors hold."""
        held = (*self.inputs_to_dump.values(), *self.floats.values())
        return sum(int(tensor.nbytes) for tensor in held)

    def observed(self) -> dict[str, InputStatistics]:
        """Say what the floats were like that are not written down."""
        found = {name: statistics_of(elements) for name, elements in self.floats.items()}
        return {name: figures for name, figures in found.items() if figures is not None}


@dataclass(frozen=True, slots=True)
class Record:
    """What is to be written for one entry. The same call always gives the same uuid."""

    definition: Definition
    trace: Trace
    blob_path: Path | None
    blob: bytes

    @property
    def uuid(self) -> str:
        """The workload's identity, made of its content."""
        return self.trace.workload.uuid


def record_of(entry: WorkloadEntry, definition: Definition, layout: Layout) -> Record:
    """Render an entry; tensors that were not copied become random inputs."""
    axes, observed = dict(entry.axes), entry.observed()
    if not entry.inputs_to_dump:
        inputs = _inputs(entry, definition, "")
        own = uuid_of(definition.name, axes, inputs)
        workload = Workload(axes=axes, inputs=inputs, uuid=own, observed=observed)
        return Record(definition, _trace(definition, workload), None, b"")
    blob = save(dict(entry.inputs_to_dump))
    identity = _identity(definition, entry, blob)
    path = layout.blob_file(definition, identity)
    inputs = _inputs(entry, definition, path.relative_to(layout.root).as_posix())
    workload = Workload(axes=axes, inputs=inputs, uuid=identity, observed=observed)
    return Record(definition, _trace(definition, workload), path, blob)


def _trace(definition: Definition, workload: Workload) -> Trace:
    return Trace(definition=definition.name, workload=workload)


def _inputs(entry: WorkloadEntry, definition: Definition, path: str) -> dict[str, InputSpec]:
    inputs: dict[str, InputSpec] = {}
    for name in definition.inputs:
        if name in entry.scalars:
            inputs[name] = ScalarInput(value=entry.scalars[name])
        elif name in entry.inputs_to_dump:
            inputs[name] = SafetensorsInput(path=path, tensor_key=name)
        else:
            inputs[name] = RandomInput()
    return inputs


def _identity(definition: Definition, entry: WorkloadEntry, blob: bytes) -> str:
    content = {
        "definition": definition.name,
        "axes": dict(entry.axes),
        "scalars": {name: repr(value) for name, value in entry.scalars.items()},
        "blob": hashlib.sha256(blob).hexdigest(),
    }
    return str(uuid.uuid5(WORKLOAD_NAMESPACE, json.dumps(content, sort_keys=True)))


class _KnownWorkload(msgspec.Struct):
    uuid: str


class _Line(msgspec.Struct):
    workload: _KnownWorkload


_DECODER = msgspec.json.Decoder(_Line)


@dataclass(slots=True)
class _KnownFile:
    read_bytes: int = 0
    uuids: set[str] = field(default_factory=set)


class KnownWorkloads:
    """Reads each file once, and then only what was appended since."""

    def __init__(self) -> None:
        self._files: dict[str, _KnownFile] = {}

    def holds(self, path: str, uuid: str) -> bool:
        """Tell whether the file has a line of this uuid."""
        file = self._files.setdefault(path, _KnownFile())
        _read_on(path, file)
        return uuid in file.uuids


def _read_on(path: str, file: _KnownFile) -> None:
    try:
        size = os.stat(path).st_size  # noqa: PTH116 - once a workload
    except (FileNotFoundError, NotADirectoryError):
        size = 0
    if size < file.read_bytes:  # replaced or emptied
        file.read_bytes = 0
        file.uuids.clear()
    if size == file.read_bytes:
        return
    with open(path, "rb") as opened:  # noqa: PTH123
        opened.seek(file.read_bytes)
        whole, _, _ = opened.read().rpartition(b"\n")
    for line in whole.split(b"\n"):
        try:
            file.uuids.add(_DECODER.decode(line).workload.uuid)
        except msgspec.DecodeError:
            continue  # the loader complains about it
    file.read_bytes += len(whole) + bool(whole)
